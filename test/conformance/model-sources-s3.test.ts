/** Models in a bucket of a server that checks every signature and policy. */
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RemoteModels } from "@tutti/admin/models";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { S3Server } from "../fixtures/s3-server.ts";

let folder = "";
let here: S3Server;
let missing: string | undefined;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-s3-"));
  const started = await S3Server.start();
  if ("missing" in started) return void (missing = started.missing);
  here = started;
  await here.do("s3", "create_bucket", { Bucket: "models" });
}, 600_000);
beforeEach((context) => {
  if (missing !== undefined) context.skip(missing);
});
afterAll(async () => {
  if (missing === undefined) await here.stop();
  await rm(folder, { recursive: true });
});

const env = (user = "reader", rest: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...here.environment(user),
  ...{ HOME: folder, TUTTI_MODEL_CACHE: join(folder, "cache"), AWS_EC2_METADATA_DISABLED: "true" },
  ...rest,
});
const models = (user?: string, rest?: NodeJS.ProcessEnv): RemoteModels => new RemoteModels(env(user, rest));
const MODEL = "a model";
const SHA256 = createHash("sha256").update(MODEL).digest("hex");

test("an object is read with a signature, whatever its key is made of", async () => {
  for (const key of ["mlp.onnx", "a b/ü+1&x=(2)'!*~.onnx", "100%/m,;:@$.onnx"]) {
    await here.put("models", key, MODEL, { ChecksumAlgorithm: "SHA256" });
    expect(await models().file(`s3://models/${key}`)).toMatchObject({ sha256: SHA256, config: undefined });
  }
});

test("a repository is listed over its pages, in newest versions, with configurations and tags", async () => {
  for (const key of ["live/mlp/2/model.onnx", "live/mlp/10/model.onnx", "live/ctr/1/model.onnx", "live/readme.md"])
    await here.put("models", key, MODEL);
  await here.put("models", "live/mlp/config.yaml", "slo: 20ms");
  const first = await models().list("s3://models/live");
  expect(first).toMatchObject([
    { name: "ctr", version: "1", path: "s3://models/live/ctr/1/model.onnx", config: null },
    { ...{ name: "mlp", version: "10" }, config: "s3://models/live/mlp/config.yaml" },
  ]);
  expect(await models().list("s3://models/live/")).toEqual(first);
  await here.put("models", "live/mlp/config.yaml", "slo: 30ms");
  const second = await models().list("s3://models/live");
  expect(second.map(({ tag }, i) => tag === first[i]!.tag)).toEqual([true, false]);
  expect((await models().file(second[1]!.path)).config).toEqual({
    ...{ text: "slo: 30ms", origin: "s3://models/live/mlp/config.yaml" },
  });
  const Keys = Array.from({ length: 1_010 }, (_, i) => `many/m${i}/1/model.onnx`);
  await here.do("s3", "fill", { Bucket: "models", Keys });
  expect(await models().list("s3://models/many")).toHaveLength(1_010);
});

test("a checksum in the object's metadata is compared, as is the one that is demanded", async () => {
  await here.put("models", "good.onnx", MODEL, { Metadata: { sha256: SHA256 } });
  expect((await models().file(`s3://models/good.onnx#sha256=${SHA256}`)).sha256).toBe(SHA256);
  await here.put("models", "bad.onnx", MODEL, { Metadata: { sha256: "0".repeat(64) } });
  await expect(models().file("s3://models/bad.onnx")).rejects.toThrow(/bad.onnx arrived damaged: its sha256 is/);
  await expect(models().file(`s3://models/good.onnx#sha256=${"0".repeat(64)}`)).rejects.toThrow(/is another file/);
});

test("what S3 refuses is one line with what to do, and without a key", async () => {
  const none = { AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "" };
  const wrong = { AWS_SECRET_ACCESS_KEY: "wr0ng" };
  const cases: readonly [RemoteModels, string, RegExp][] = [
    [models(), "s3://models/none.onnx", /the bucket has no such object/],
    [models(), "s3://nowhere/m.onnx", /there is no bucket "nowhere": check its name, AWS_REGION and AWS_ENDPOINT_URL/],
    [
      models("nobody"),
      "s3://models/mlp.onnx",
      /access denied \(AccessDenied\): .* need s3:GetObject and s3:ListBucket/,
    ],
    [models("reader", wrong), "s3://models/mlp.onnx", /access denied \(SignatureDoesNotMatch\)/],
    [models("reader", none), "s3://models/mlp.onnx", /no credentials were found: set AWS_ACCESS_KEY_ID/],
    [
      models("reader", { AWS_ENDPOINT_URL: "minio:9000" }),
      "s3://models/m.onnx",
      /AWS_ENDPOINT_URL=minio:9000: the addr/,
    ],
    [
      models("reader", { AWS_ENDPOINT_URL: "http://127.0.0.1:1" }),
      "s3://models/m.onnx",
      /127.0.0.1:1 can't be reached/,
    ],
  ];
  for (const [remote, url, words] of cases) {
    const failure = await remote.file(url).catch((error: Error) => error.message);
    expect(failure).toMatch(words);
    expect(failure).not.toMatch(/wr0ng|\n/);
  }
  await expect(models().list("s3://nowhere/x")).rejects.toThrow(/there is no bucket "nowhere"/);
  await expect(models("nobody").list("s3://models/live")).rejects.toThrow(/access denied/);
});
