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
