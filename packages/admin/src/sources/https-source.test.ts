import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { entryOf } from "./netrc.ts";
import { RemoteModels } from "./remote-models.ts";
import { Listener } from "./testing/listener.ts";

let folder = "";
const open: Listener[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-https-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
  for (const listener of open.splice(0)) listener.stop();
});

const MODEL = Buffer.from("a model");
const SHA256 = createHash("sha256").update(MODEL).digest("hex");
const BASE64 = createHash("sha256").update(MODEL).digest("base64");
const env = (): NodeJS.ProcessEnv => ({ HOME: folder, TUTTI_MODEL_CACHE: join(folder, "cache") });
const models = (): RemoteModels => new RemoteModels(env());

async function serve(answer: RequestListener): Promise<Listener> {
  const listener = await Listener.startTls(answer);
  open.push(listener);
  return listener;
}
const ok =
  (headers: Readonly<Record<string, string>> = {}): RequestListener =>
  (_, response) =>
    void response.writeHead(200, headers).end(MODEL);

test("a model comes over HTTPS once, and is asked after by its ETag from then on", async () => {
  const { url, asked } = await serve(({ headers }, response) => {
    if (headers["if-none-match"] === '"1"') response.writeHead(304).end();
    else response.writeHead(200, { etag: '"1"' }).end(MODEL);
  });
  for (let i = 0; i < 2; i++)
    expect(await models().file(`${url}/m.onnx`)).toMatchObject({ bytes: new Uint8Array(MODEL), sha256: SHA256 });
  expect(asked.map(({ headers }) => headers["if-none-match"])).toEqual([undefined, '"1"']);
  rmSync(join(folder, "cache/sha256"), { recursive: true });
  expect((await models().file(`${url}/m.onnx`)).bytes).toEqual(new Uint8Array(MODEL));
});

test("a demanded checksum is kept, and needs no server once the file is there", async () => {
  const { url, asked } = await serve(ok());
  for (let i = 0; i < 2; i++) expect((await models().file(`${url}/m.onnx#sha256=${SHA256}`)).sha256).toBe(SHA256);
  expect(asked).toHaveLength(1);
  await expect(models().file(`${url}/m.onnx#sha256=${"0".repeat(64)}`)).rejects.toThrow(
    `${url}/m.onnx is another file: its sha256 is ${SHA256}, and ${"0".repeat(64)} is demanded`,
  );
});

test.each([
  { "repr-digest": "sha-512=:AAAA:, sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:" },
  { "x-checksum-sha256": "E3".repeat(32) },
])("a file that isn't what its server says is refused: %o", async (headers) => {
  const { url } = await serve(ok(headers));
  await expect(models().file(`${url}/m.onnx`)).rejects.toThrow(/m.onnx arrived damaged: its sha256 is/);
});

test("a file that is what its server says is taken", async () => {
  const { url } = await serve(ok({ "repr-digest": `sha-256=:${BASE64}:`, "x-checksum-sha256": SHA256 }));
  expect((await models().file(`${url}/m.onnx`)).sha256).toBe(SHA256);
});

test("a model beyond 2 GiB, and a configuration beyond 4 MiB, are given up before they come", async () => {
  const { url } = await serve(({ url: path }, response) => {
    const bytes = path === "/m.onnx" ? 2_147_483_648 : 4_194_305;
    response.writeHead(200, { "content-length": bytes }).write("x");
  });
  await expect(models().file(`${url}/m.onnx`)).rejects.toThrow(/m.onnx is larger than the 2047 MiB that are taken/);
  await expect(models().text(`${url}/c.yaml`)).rejects.toThrow(/c.yaml is larger than the 4 MiB that are taken/);
});

test("a password comes from netrc, for its host alone, and never over plain HTTP", async () => {
  writeFileSync(join(folder, ".netrc"), "machine localhost login me password hunter2\n");
  const guarded: RequestListener = ({ headers }, response) => {
    const isKnown = headers.authorization === `Basic ${Buffer.from("me:hunter2").toString("base64")}`;
    response.writeHead(isKnown ? 200 : 401).end(MODEL);
  };
  const { url } = await serve(guarded);
  expect((await models().file(`${url}/m.onnx`)).sha256).toBe(SHA256);
  const plain = await Listener.start(guarded);
  open.push(plain);
  await expect(models().file(`${plain.url}/m.onnx#sha256=${"0".repeat(64)}`)).rejects.toThrow(/access denied/);
  expect(plain.asked[0]?.headers.authorization).toBeUndefined();
  rmSync(join(folder, ".netrc"));
  await expect(models().file(`${url}/m.onnx`)).rejects.toThrow(
    /m.onnx: access denied \(HTTP 401\): ~\/.netrc \(or NETRC\) takes "machine localhost login … password …"/,
  );
});

test("entries of netrc are read as curl does, and `default` is for nobody", () => {
  const text = `# machine commented login a password b
macdef init
machine inmacro login a password b

machine Other.example
  login me
  password p#w
default login anonymous password guest`;
  expect(entryOf(text, "other.EXAMPLE")).toEqual({ login: "me", password: "p#w" });
  for (const host of ["commented", "inmacro", "anything"]) expect(entryOf(text, host)).toBeUndefined();
});

test.each([
  [404, /there is no such file \(HTTP 404\)/],
  [418, /its server answered HTTP 418/],
])("what a server refuses with %i is one line without the address' secrets", async (status, words) => {
  const { url } = await serve((_, response) => void response.writeHead(status).end("<html>secret</html>"));
  const failure = await models()
    .file(`${url}/m.onnx?signature=secret`)
    .catch((error: Error) => error.message);
  expect(failure).toMatch(words);
  expect(failure).not.toMatch(/secret|\n/);
});
