import type { DecodeJob, Decoded } from "@tutti/decode";
import { type ModelSpec, TuttiError } from "@tutti/protocol";
import { micros } from "@tutti/units";
import { afterEach, expect, test } from "vitest";
import { WorkerDecoder } from "./worker-decoder.ts";

const WIDTH = 20_000;
const spec: ModelSpec = {
  name: "wide",
  number: 1,
  version: "1",
  engine: "emulated",
  slo: micros(10_000),
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "FP32", dims: ["batch", WIDTH] }],
  outputs: [],
  constants: [],
  axes: {},
  buckets: [{}],
};
const json = (values: readonly unknown[]): Uint8Array =>
  Buffer.from(JSON.stringify({ id: "7", inputs: [{ name: "x", datatype: "FP32", shape: [1, WIDTH], data: values }] }));

const decoder = new WorkerDecoder();
afterEach(() => decoder.close());
const decode = (job: DecodeJob): Promise<Decoded | Error> => new Promise((resolve) => decoder.decode(job, resolve));

test("a long JSON body is decoded on the worker, to the same row", async () => {
  const values = Array.from({ length: WIDTH }, (_, i) => i / 8);
  const payload = json(values);
  let inSameTurn = true;
  const decoded = new Promise<Decoded | Error>((resolve) =>
    decoder.decode({ form: "json", payload, spec }, (outcome) => {
      expect(inSameTurn).toBe(false);
      resolve(outcome);
    }),
  );
  inSameTurn = false;
  payload.fill(0); // borrowed: the caller may use it again at once
  expect(await decoded).toMatchObject({ id: "7", bucket: 0 });
  const { row } = (await decoded) as Decoded;
  expect(Array.from(new Float32Array(row.slice().buffer))).toEqual(values);
});

test("what is wrong with a long body comes back as the same typed error", async () => {
  const outcome = await decode({
    form: "json",
    payload: json(Array.from({ length: WIDTH }, () => "x".repeat(10))),
    spec,
  });
  expect(outcome).toBeInstanceOf(TuttiError);
  expect((outcome as TuttiError).code).toBe("TUTTI_INVALID_INPUT");
});

test("more long bodies than may wait are refused as overload (T7)", async () => {
  const payload = json(Array.from({ length: WIDTH }, () => 1.25));
  const outcomes = await Promise.all(Array.from({ length: 80 }, () => decode({ form: "json", payload, spec })));
  const refused = outcomes.filter((outcome) => outcome instanceof TuttiError && outcome.code === "TUTTI_OVERLOADED");
  expect(refused).toHaveLength(16);
  expect(outcomes.filter((outcome) => !(outcome instanceof Error))).toHaveLength(64);
});
