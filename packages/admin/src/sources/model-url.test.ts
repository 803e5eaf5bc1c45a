import fc from "fast-check";
import { expect, test } from "vitest";
import { isModelUrl, parseModelUrl, pathIn } from "./model-url.ts";

const DIGEST = "a1".repeat(32);

test("buckets, web servers and registries are told apart, with the checksum that is demanded", () => {
  expect(parseModelUrl(`s3://models/live/mlp/1/model.onnx#sha256=${DIGEST.toUpperCase()}`)).toEqual({
    ...{ scheme: "s3", bucket: "models", key: "live/mlp/1/model.onnx", sha256: DIGEST },
    label: "s3://models/live/mlp/1/model.onnx",
  });
  expect(parseModelUrl("s3://models")).toMatchObject({ bucket: "models", key: "" });
  expect(parseModelUrl("https://host/a/model.onnx")).toMatchObject({ scheme: "https", sha256: undefined });
  const oci = { scheme: "oci", registry: "localhost:5000", repository: "team/mlp" };
  expect(parseModelUrl("oci://localhost:5000/team/mlp:v1")).toMatchObject({ ...oci, reference: "v1" });
  expect(parseModelUrl("oci://localhost:5000/team/mlp")).toMatchObject({ ...oci, reference: "latest" });
  const byDigest = `oci://localhost:5000/team/mlp:v1@sha256:${DIGEST}`;
  expect(parseModelUrl(byDigest)).toMatchObject({ ...oci, reference: `sha256:${DIGEST}` });
  expect(pathIn(parseModelUrl(byDigest))).toBe("team/mlp");
  expect(["./a.onnx", "/a", "C:\\a.onnx", "a:b"].map(isModelUrl)).toEqual([false, false, false, false]);
});

test.each([
  ["file:///etc/passwd", /models are taken from s3:/],
  ["ftp://host/m.onnx", /models are taken from s3:/],
  ["gopher://host/m.onnx", /models are taken from s3:/],
  ["http://host/m.onnx", /take https:/],
  ["https://", /is no URL/],
  ["s3://Models/key", /with a bucket of 3 to 63/],
  ["s3:///key", /with a bucket of 3 to 63/],
  ["s3://models/../other/secret", /"\.\." as a segment/],
  ["s3://models/a/./b", /"\." or/],
  ["oci://registry", /oci:\/\/registry\/repository:tag/],
  ["oci://registry/../../x", /oci:\/\/registry\/repository:tag/],
  ["oci://registry/UPPER:v1", /oci:\/\/registry\/repository:tag/],
  ["https://host/m.onnx#sha256=12", /behind # stands sha256=/],
])("%s is refused with what it should be", (text, words) => {
  expect(() => parseModelUrl(text)).toThrow(words);
});

test("a password and a signature never stand in a message", () => {
  expect(() => parseModelUrl("https://me:hunter2@host/m.onnx?X-Amz-Signature=abc")).toThrow(
    /^https:\/\/host\/m.onnx: a password/,
  );
  for (const password of ["hun/ter2", "hun#ter2", "hun?ter2", "hun@ter2", "12/hun/ter2"])
    for (const scheme of ["https", "oci", "ftp"])
      try {
        expect(parseModelUrl(`${scheme}://me:${password}@host/m.onnx`).label).not.toMatch(/hun|ter2/);
      } catch (error) {
        expect((error as Error).message).not.toMatch(/hun|ter2/);
      }
  expect(parseModelUrl("https://host:8443/m@1/m.onnx").label).toMatch(/m\.onnx$/);
  expect(parseModelUrl("https://host/m@1/m.onnx").label).toBe("https://host/m@1/m.onnx");
  const byDigest = `oci://localhost:5000/team/mlp@sha256:${DIGEST}`;
  expect(parseModelUrl(byDigest).label).toBe(byDigest);
  expect(parseModelUrl("https://host/m.onnx?X-Amz-Signature=abc").label).toBe("https://host/m.onnx");
});

test("no key leaves its bucket, whatever it is made of", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom("..", ".", "a", "%2e%2e", "..%2f", "", "/", "\\", "?x", "...")), (parts) => {
      const text = `s3://models/${parts.join("/")}`;
      let key: string;
      try {
        key = pathIn(parseModelUrl(text));
      } catch {
        return;
      }
      const path = key.split("/").map(encodeURIComponent).join("/");
      expect(new URL(`https://host/models/${path}`).pathname.startsWith("/models/")).toBe(true);
    }),
  );
});
