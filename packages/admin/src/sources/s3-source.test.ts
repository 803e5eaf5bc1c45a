/**
 * The parts of S3's protocol that a server isn't easily brought to; test/conformance has a server that checks
 * signatures.
 */
import { mkdtempSync, rmSync } from "node:fs";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { RemoteModels } from "./remote-models.ts";
import { Listener } from "./testing/listener.ts";

let folder = "";
let s3: Listener;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-s3-"));
});
afterEach(() => {
  s3.stop();
  rmSync(folder, { recursive: true });
});

async function bucketOf(answer: RequestListener, env: NodeJS.ProcessEnv = {}): Promise<RemoteModels> {
  s3 = await Listener.start(answer);
  const keys = { AWS_ACCESS_KEY_ID: "A", AWS_SECRET_ACCESS_KEY: "B", AWS_ENDPOINT_URL_S3: `${s3.url}/base/` };
  return new RemoteModels({ HOME: folder, TUTTI_MODEL_CACHE: join(folder, "cache"), ...keys, ...env });
}

test("a list without an end is given up after so many pages", async () => {
  const page = "<ListBucketResult><NextContinuationToken>a+b/c=</NextContinuationToken></ListBucketResult>";
  const models = await bucketOf((_, response) => void response.end(page));
  await expect(models.list("s3://models/live")).rejects.toThrow(
    "s3://models/live has over 100,000 objects: give a prefix that has models only",
  );
  expect(s3.asked).toHaveLength(100);
  expect(s3.asked[1]?.url).toMatch(/^\/base\/models\/\?.*prefix=live%2F&continuation-token=a%2Bb%2Fc%3D$/);
});

test("a list that breaks off is no list of all models", async () => {
  const page = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
  const models = await bucketOf((_, response) => void response.end(page));
  await expect(models.list("s3://models/live")).rejects.toThrow(/breaks its list off/);
});

test("credentials that are denied, and those without a readable end, are asked for anew", async () => {
  const env = { AWS_ACCESS_KEY_ID: "" };
  let keys = 0;
  const container = await Listener.start(
    (_, response) =>
      void response.end(
        JSON.stringify({ AccessKeyId: `K${++keys}`, SecretAccessKey: "B", ...(keys > 2 && { Expiration: "soon" }) }),
      ),
  );
  const models = await bucketOf(
    ({ headers }, response) =>
      void response.writeHead(headers.authorization?.includes("K1/") === true ? 403 : 200, {}).end("a model"),
    { ...env, AWS_CONTAINER_CREDENTIALS_FULL_URI: container.url },
  );
  const text = (): Promise<string> => models.text("s3://models/config.yaml");
  await expect(text()).rejects.toThrow(/access denied \(403\)/);
  for (let i = 0; i < 2; i++) expect(await text()).toBe("a model");
  expect(keys).toBe(2); // those without an end are kept
  const other = await bucketOf((_, response) => void response.end("a model"), {
    ...env,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: container.url,
  });
  for (let i = 0; i < 2; i++) await other.text("s3://models/config.yaml");
  expect(keys).toBe(4);
  container.stop();
});

test("a misnamed model stands beside those that can be taken", async () => {
  const contents = ["live/a b/1/model.onnx", "live/good/1/model.onnx"]
    .map((key) => `<Contents><Key>${key}</Key><ETag>1</ETag></Contents>`)
    .join("");
  const models = await bucketOf((_, response) => void response.end(`<ListBucketResult>${contents}</ListBucketResult>`));
  const { models: good, faulty } = await models.survey("s3://models/live");
  expect([good.map(({ name }) => name), faulty.map(({ name }) => name)]).toEqual([["good"], ["a b"]]);
  await expect(models.list("s3://models/live")).rejects.toThrow(/live\/a b: names have letters/);
});

test("keys that are others' once they stand in a URL are no models", async () => {
  const keys = ["live/../1/model.onnx", "live/a/1/../model.onnx", "live/good/1/model.onnx", "live/%2E%2E/1/model.onnx"];
  const contents = keys.map((key) => `<Contents><Key>${key}</Key><ETag>&quot;1&quot;</ETag></Contents>`).join("");
  const models = await bucketOf((_, response) => void response.end(`<ListBucketResult>${contents}</ListBucketResult>`));
  expect((await models.list("s3://models/live")).map(({ path }) => path)).toEqual([
    "s3://models/live/good/1/model.onnx",
  ]);
});

test.each([
  [301, { "x-amz-bucket-region": "eu-central-1" }, "", /the bucket is in another region: set AWS_REGION=eu-central-1/],
  [400, {}, "<Region>eu-west-3</Region>", /set AWS_REGION=eu-west-3/],
  [403, {}, "<Code>ExpiredToken</Code>", /access denied \(ExpiredToken\)/],
  [418, {}, "<Code>Odd</Code>", /S3 answered HTTP 418 Odd/],
  [200, {}, "<html>", /localhost:\d+ speaks no S3/],
])("an answer with status %i and %o says what to do", async (status, headers, text, words) => {
  const models = await bucketOf((_, response) => void response.writeHead(status, headers).end(text));
  await expect(models.list("s3://models/live")).rejects.toThrow(words);
});

test("a redirect of S3 is followed nowhere, since its signature is for one address", async () => {
  const models = await bucketOf(
    (_, response) => void response.writeHead(307, { location: "http://169.254.169.254/" }).end(),
  );
  await expect(models.file("s3://models/m.onnx")).rejects.toThrow(/S3 answered HTTP 307/);
});

test("a bucket that is public is read without a signature", async () => {
  const models = await bucketOf((_, response) => void response.writeHead(200, { etag: '"1"' }).end("a model"), {
    ...{ AWS_ACCESS_KEY_ID: "", AWS_EC2_METADATA_DISABLED: "true" },
  });
  await models.file("s3://models/m.onnx");
  expect(s3.asked[0]?.headers.authorization).toBeUndefined();
});
