import type { RequestListener } from "node:http";
import { afterEach, expect, test } from "vitest";
import { type HttpGet, httpGet, textOf } from "./http-get.ts";
import { Listener } from "./testing/listener.ts";

const open: Listener[] = [];
afterEach(() => {
  for (const listener of open.splice(0)) listener.stop();
});
async function listen(answer: RequestListener, scheme: "start" | "startTls" = "start"): Promise<Listener> {
  const listener = await Listener[scheme](answer);
  open.push(listener);
  return listener;
}
const get = (url: string, rest: Partial<HttpGet> = {}): Promise<string> =>
  httpGet({ url: new URL(url), label: "the model", bytesMax: 100, ...rest }, textOf);
const to =
  (location: string): RequestListener =>
  (_, response) =>
    void response.writeHead(302, { location }).end();

test("a redirect is followed, and only the first origin hears the secrets", async () => {
  const other = await listen((_, response) => void response.end("hallo"));
  const first = await listen(to(`${other.url}/blob`));
  const secrets = { authorization: "Bearer t0ken" };
  expect(await get(first.url, { secrets, headers: { accept: "a/b" } })).toBe("hallo");
  expect(first.asked[0]?.headers).toMatchObject({ authorization: "Bearer t0ken", accept: "a/b" });
  expect(other.asked[0]?.headers).toMatchObject({ accept: "a/b" });
  expect(other.asked[0]?.headers.authorization).toBeUndefined();
});

test.each(["file:///etc/passwd", "ftp://host/x", "data:text/plain,x", "http://[", "//me:pw@localhost/"])(
  "a redirect to %s is not followed",
  async (location) => {
    const { url } = await listen(to(location));
    await expect(get(url)).rejects.toThrow(/the model redirects to .*, which isn't followed/);
  },
);

test("nothing leads from HTTPS to HTTP", async () => {
  const plain = await listen((_, response) => void response.end("hallo"));
  const { url } = await listen(to(plain.url), "startTls");
  await expect(get(url)).rejects.toThrow(/redirects to http:, which isn't followed: only https:/);
  expect(plain.asked).toEqual([]);
});

test("so many redirects are followed and no more", async () => {
  const { url, asked } = await listen(to("/again"));
  await expect(get(url)).rejects.toThrow(/more than 5 redirects/);
  expect(asked).toHaveLength(6);
});

test("a file beyond its bound is given up, whether its length is declared or not", async () => {
  const declared = await listen((_, response) => void response.end("x".repeat(101)));
  await expect(get(declared.url)).rejects.toThrow(/the model is larger than the 0 MiB that are taken/);
  const endless = await listen((_, response) => {
    const more = (): void => void (response.destroyed || response.write("x".repeat(60), () => setImmediate(more)));
    more();
  });
  await expect(get(endless.url)).rejects.toThrow(/the model is larger/);
});

test("an answer that breaks off or asks to come back is asked for again, three times at most", async () => {
  let failures = 0;
  const { url, asked } = await listen((_, response) => {
    if (failures-- > 0) response.writeHead(503).end();
    else response.writeHead(200, { "content-length": 5 }).write("ha", () => response.destroy());
  });
  failures = 1;
  await expect(get(url)).rejects.toMatchObject({ exitCode: 3, message: expect.stringMatching(/can't be reached/) });
  expect(asked).toHaveLength(3);
});

test("a server that says nothing is given up", async () => {
  const { url } = await listen((_, response) => void response.writeHead(200).write("ha"));
  await expect(get(url, { silenceMs: 50 })).rejects.toMatchObject({ exitCode: 3 });
});

test("a credential that no header can hold is not quoted", async () => {
  const failure = await get("http://localhost:1", { secrets: { authorization: "Bearer s3cret\nx" } }).catch(
    (error: Error) => error.message,
  );
  expect(failure).toMatch(/the request is malformed/);
  expect(failure).not.toMatch(/s3cret/);
});

test("a server of an unknown authority is named with what helps", async () => {
  const { url } = await listen((_, response) => void response.end("hallo"), "startTls");
  const byAddress = url.replace("localhost", "127.0.0.1"); // the certificate is of another name
  await expect(get(byAddress)).rejects.toThrow(/can't be reached \(.*CERT.*\): NODE_EXTRA_CA_CERTS/);
});
