import type { Decoded } from "@tutti/actors";
import type { ModelSpec } from "@tutti/protocol";
import { micros } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { afterEach, expect, test } from "vitest";
import { INLINE_BYTES_MAX, WorkerDecoder } from "./worker-decoder.ts";

const WIDTH = 20_000;
const spec: ModelSpec = {
  name: "wide",
  number: 1,
  version: "1",
  engine: "onnx",
  slo: micros(1_000_000),
  batchSizeMax: 4,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", WIDTH] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
  constants: [],
  axes: {},
  buckets: [{}],
};
const body = (values: readonly number[]): Uint8Array =>
  toJson({ inputs: [{ name: "x", shape: [1, values.length], datatype: "FP32", data: values }] });
const values = (count: number): number[] => Array.from({ length: count }, (_, index) => index / 7);

const decoder = new WorkerDecoder();
afterEach(() => decoder.close());
const decode = (payload: Uint8Array): Promise<Decoded | Error> =>
  new Promise((resolve) => decoder.decode({ form: "json", payload, spec }, resolve));

test("a large body is decoded in a worker into the same row as a small decoder would make", async () => {
  const payload = body(values(WIDTH));
  expect(payload.byteLength).toBeGreaterThan(INLINE_BYTES_MAX);
  const outcome = decode(payload);
  payload.fill(0); // it was borrowed: the decoder must have its own copy
  const decoded = (await outcome) as Decoded;
  expect(decoded.bucket).toBe(0);
  expect(new Float32Array(decoded.row.slice().buffer)).toEqual(Float32Array.from(values(WIDTH)));
});

test("what is wrong with a large body comes back as its typed error, and the next one is decoded", async () => {
  expect(await decode(body(values(WIDTH - 1)))).toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  expect(await decode(new Uint8Array(INLINE_BYTES_MAX + 1).fill(0x7b))).toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  expect(await decode(body(values(WIDTH)))).toMatchObject({ bucket: 0 });
});

test("more large bodies than may wait are refused as overload, and the rest is answered (T7)", async () => {
  const payload = body(values(WIDTH));
  const outcomes = await Promise.all(Array.from({ length: 260 }, () => decode(payload)));
  const refused = outcomes.filter((outcome) => outcome instanceof Error);
  expect(refused).toHaveLength(4);
  expect(refused[0]).toMatchObject({ code: "TUTTI_OVERLOADED", retryable: true });
});

test("when the worker is lost its requests fail, and the next one gets a new worker", async () => {
  const lost = decode(body(values(WIDTH)));
  await decoder.close();
  expect(await lost).toMatchObject({ code: "TUTTI_INTERNAL" });
  expect(await decode(body(values(WIDTH)))).toMatchObject({ bucket: 0 });
});
