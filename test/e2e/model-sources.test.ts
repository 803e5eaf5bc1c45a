/** `tutti up --models s3://…` and `tutti load` of models that are kept elsewhere, against servers of this test. */
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority, signServer } from "@tutti/admin/certificates";
import { generateAddOne } from "@tutti/onnx-tools";
import { createServer } from "node:https";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { S3Server } from "../fixtures/s3-server.ts";
import { TuttiUp, tutti } from "./tutti-up.ts";

const MODEL = generateAddOne();
const SHA256 = createHash("sha256").update(MODEL).digest("hex");
const CONFIG = "{ slo: 500ms, max_batch_size: 4 }";

let missing: string | undefined;
let folder: string;
let s3: S3Server;
let web: ReturnType<typeof createServer>;
let webUrl: string;
let up: TuttiUp;
const saved = { ...process.env };

beforeAll(async () => {
  const started = await S3Server.start();
  if ("missing" in started) return void (missing = started.missing);
  s3 = started;
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-sources-"));
  await s3.do("s3", "create_bucket", { Bucket: "models" });
  await s3.put("models", "live/add/1/model.onnx", MODEL);
  await s3.put("models", "live/add/config.yaml", CONFIG);
  const authority = await createAuthority("e2e", 1);
  const { certificate: cert, key } = await signServer(authority, ["localhost"], 1);
  await writeFile(join(folder, "ca.pem"), authority.certificate);
  web = createServer({ cert, key }, (request, response) => {
    if (request.url === "/to-a-file") response.writeHead(302, { location: "file:///etc/passwd" }).end();
    else response.writeHead(request.url?.startsWith("/add.onnx") === true ? 200 : 404).end(MODEL);
  }).listen(0, "127.0.0.1");
  await once(web, "listening");
  webUrl = `https://localhost:${(web.address() as AddressInfo).port}`;
  Object.assign(process.env, {
    ...s3.environment("reader"),
    ...{ TUTTI_MODEL_CACHE: join(folder, "cache"), NODE_EXTRA_CA_CERTS: join(folder, "ca.pem"), HOME: folder },
  });
  const models = ["--no-demo", "--models", "s3://models/live", "--models-poll", "1s"];
  up = await TuttiUp.start([...models, "--executors", "1"]);
}, 600_000);
beforeEach((context) => {
  if (missing !== undefined) context.skip(missing);
});
afterAll(async () => {
  process.env = saved;
  await up?.stop();
  web?.close();
  await s3?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
}, 120_000);

async function served(): Promise<Map<string, number>> {
  const { stdout } = await up.command("models", "--json");
  const listed = JSON.parse(stdout) as { name: string; sloUs: number; state: string }[];
  return new Map(listed.filter(({ state }) => state === "ready").map(({ name, sloUs }) => [name, sloUs]));
}
const changed = (name: string, after: number): Promise<unknown> =>
  up.next("models-changed", (event) => event["name"] === name, after);

test("a bucket's models are served, and its processes have no keys to it", async () => {
  expect(await served()).toEqual(new Map([["add", 500_000]]));
  const environment = await readFile(`/proc/${up.pidOf("executor-0")}/environ`, "utf8");
  expect(environment).toContain("TUTTI_PROCESS=executor-0");
  expect(environment).not.toContain("AWS_");
});

test("a new, a changed and a removed model are taken over", async () => {
  let after = up.events.length;
  await s3.put("models", "live/more/config.yaml", CONFIG);
  await s3.put("models", "live/more/1/model.onnx", MODEL);
  await changed("more", after);
  after = up.events.length;
  await s3.put("models", "live/add/config.yaml", CONFIG.replace("500ms", "400ms"));
  await changed("add", after);
  expect(await served()).toEqual(
    new Map([
      ["add", 400_000],
      ["more", 500_000],
    ]),
  );
  after = up.events.length;
  await s3.do("s3", "delete_object", { Bucket: "models", Key: "live/more/1/model.onnx" });
  await changed("more", after);
  expect([...(await served()).keys()]).toEqual(["add"]);
});

test("a faulty model is named once, and what it was goes on", async () => {
  const after = up.events.length;
  await s3.put("models", "live/add/config.yaml", "slo: soon");
  const fault = await up.next("models-faulty", undefined, after);
  expect(fault["why"]).toMatch(/^model add: slo: 'soon' is no duration/);
  expect(await served()).toEqual(new Map([["add", 400_000]]));
  await s3.put("models", "live/add/config.yaml", CONFIG);
  await changed("add", after);
});

test("`tutti load` takes models from a bucket, a web server, and by a checksum; a wrong one changes nothing", async () => {
  await s3.put("models", "single/one.onnx", MODEL);
  const loaded = await up.command("load", "s3://models/single/one.onnx", "--slo", "500ms", "--json");
  expect(loaded).toMatchObject({ code: 0, stdout: expect.stringContaining('"name":"one"') });
  const url = `${webUrl}/add.onnx?token=s3cret#sha256=${SHA256}`;
  const fromWeb = await up.command("load", url, "--name", "two", "--slo", "500ms", "--json");
  expect(fromWeb).toMatchObject({ code: 0, stdout: expect.stringContaining('"name":"two"') });
  const before = await served();
  const refused = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await up.command("load", ...args, "--slo", "500ms");
    expect([code > 0, stdout, stderr.split("\n").length]).toEqual([true, "", 2]);
    return stderr;
  };
  const other = "0".repeat(64);
  expect(await refused(`s3://models/single/one.onnx#sha256=${other}`, "--name", "three")).toContain("is another file");
  expect(await refused(`${webUrl}/add.onnx?token=s3cret#sha256=${other}`)).not.toContain("s3cret");
  expect(await refused(`${webUrl}/to-a-file`)).toContain("redirects to file:, which isn't followed: only https:");
  expect(await refused("file:///etc/passwd")).toContain("models are taken from s3://bucket/key");
  expect(await refused("s3://nowhere/m.onnx")).toContain('there is no bucket "nowhere"');
  expect(await refused("s3://models/empty/")).toContain("has no models: the layout is s3://models/empty/name/1/");
  expect(await refused("oci://localhost:1/team/mlp:v1")).toContain("localhost:1 can't be reached");
  expect(await served()).toEqual(before);
});

test("a cluster whose models can't be had doesn't start", async () => {
  const nobody = { ...process.env, ...s3.environment("nobody"), TUTTI_RUN_DIR: join(folder, "none") };
  const start = ["up", "--port", "0", "--no-demo", "--models"];
  const [denied, web] = await Promise.all([
    tutti([...start, "s3://models/live"], nobody),
    tutti([...start, `${webUrl}/models`], nobody),
  ]);
  expect(denied).toEqual({
    ...{ code: 1, stdout: "" },
    stderr: expect.stringMatching(
      /^tutti: s3:\/\/models\/live: access denied \(AccessDenied\): .*s3:ListBucket there\n$/,
    ),
  });
  expect(web).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringMatching(/only s3:\/\/bucket\/prefix can be/),
  });
});

test("a bucket that is denied, or whose server is gone, leaves everything as it is, and that is said once", async () => {
  const after = up.events.length;
  await s3.allow("reader", "Deny");
  expect((await up.next("models-unreachable", undefined, after))["why"]).toMatch(/access denied \(AccessDenied\)/);
  await s3.allow("reader", "Allow");
  await up.next("models-changed", ({ name }) => name === undefined, after);
  const gone = up.events.length;
  await s3.stop();
  expect((await up.next("models-unreachable", undefined, gone))["why"]).toMatch(/can't be reached/);
  expect((await served()).has("add")).toBe(true);
  expect(up.events.filter(({ event }) => event === "models-unreachable")).toHaveLength(2);
});
