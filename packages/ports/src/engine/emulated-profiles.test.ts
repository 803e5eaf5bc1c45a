import { expect, test } from "vitest";
import { parseEmulatedProfiles } from "./index.ts";

test("a line and a table become models with their latencies", () => {
  const { models, latency, jitter } = parseEmulatedProfiles({
    jitter: 0.1,
    seed: 7,
    models: [
      { name: "resnet50", alphaMs: 1.053, betaMs: 5.072, batchMax: 32, sloMs: 25 },
      {
        name: "stairs",
        latencyMs: [2, 2, 5.5],
        sloMs: 40,
        patience: 0,
        inputs: [{ name: "image", type: "UINT8", dims: ["batch", 3, 224, 224] }],
        outputs: [{ name: "classes", dims: ["batch", 1000] }],
      },
    ],
  });
  expect(models[0]).toMatchObject({
    name: "resnet50",
    engine: "emulated",
    slo: 25_000,
    batchSizeMax: 32,
    patience: 1,
    inputs: [{ name: "x", type: "FP32", dims: ["batch", 1] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
    buckets: [{}],
  });
  expect(models[1]).toMatchObject({
    batchSizeMax: 3,
    patience: 0,
    inputs: [{ name: "image", type: "UINT8", dims: ["batch", 3, 224, 224] }],
    outputs: [{ name: "classes", type: "FP32", dims: ["batch", 1000] }],
    profile: [
      [
        { batchSize: 1, latency: 2_000 },
        { batchSize: 2, latency: 2_000 },
        { batchSize: 3, latency: 5_500 },
      ],
    ],
  });
  expect([latency("resnet50", 0, 1), latency("resnet50", 0, 32), latency("stairs", 0, 3)]).toEqual([
    6_125, 38_768, 5_500,
  ]);
  expect([latency("resnet50", 0, 33), latency("resnet50", 1, 1), latency("toString", 0, 1)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(jitter).toEqual({ seed: 7, spread: 0.1 });
});

test("every mistake is named with its path, several at once", () => {
  const linesOf = (document: unknown): string[] => {
    try {
      parseEmulatedProfiles(document);
    } catch (error) {
      expect(error).toMatchObject({ code: "TUTTI_INVALID_INPUT" });
      return (error as Error).message.split("\n");
    }
    return [];
  };
  const good = { name: "a", alphaMs: 1, betaMs: 5, sloMs: 25 };
  expect(linesOf({ models: [good] })).toEqual([]);
  expect(linesOf(null)).toEqual(["the document: is a mapping of names to values", "models: is missing"]);
  expect(linesOf({ models: [good, good] })).toEqual(["models[1].name: a is there twice"]);
  expect(linesOf({ models: [{ ...good, slo: 5, sloMs: -1, name: "a.b", patience: "yes" }] })).toEqual([
    "models[0].slo: is unknown here; known are name, alphaMs, betaMs, latencyMs, dynamic, batchMax, sloMs, patience, shares, memory, inputs, outputs",
    'models[0].name: is 1 to 64 letters, digits, "-" and "_", the first a letter or a digit',
    "models[0].sloMs: is -1, but should be above 0 and at most 600000",
    'models[0].patience: "yes" is no number',
  ]);
  expect(linesOf({ models: [{ ...good, memory: "a lot" }] })).toEqual(["models[0].memory: is a size, such as 512MB"]);
  expect(parseEmulatedProfiles({ models: [{ ...good, memory: "512MB" }] }).models[0]).toMatchObject({ memory: 512e6 });
  expect(linesOf({ models: [{ name: "a", sloMs: 5, latencyMs: [3, 2], alphaMs: 1, batchMax: 4 }] })).toEqual([
    "models[0].alphaMs: stands beside latencyMs: give one or the other",
    "models[0].latencyMs[1]: is less than that of a batch of 1",
    "models[0].batchMax: is 4, but latencyMs has 2 entries",
  ]);
  expect(linesOf({ models: [{ ...good, inputs: [{ name: "x", dims: [3, "W"] }, { type: "BYTES" }] }] })).toEqual([
    'models[0].inputs[0].dims: is a list of at most 8 sizes, "batch" once among them, as in [batch, 3, 224, 224]',
    "models[0].inputs[1].name: is missing",
    'models[0].inputs[1].type: "BYTES" is no element type that is served (FP32, INT64, UINT8, …)',
    'models[0].inputs[1].dims: is a list of at most 8 sizes, "batch" once among them, as in [batch, 3, 224, 224]',
  ]);
  expect(linesOf({ models: [{ ...good, inputs: [{ name: "x", dims: ["batch", 4_000_000] }] }] })).toEqual([
    "models[0].inputs: make 16000000 bytes a request; at most 4194304",
  ]);
  expect(linesOf({ models: Array.from({ length: 30 }, () => 5) })).toHaveLength(10);
});

const DYNAMIC = { fixedMs: 2, unitMs: 0.1, rowUnitMs: 0.05, axis: "T", max: 100, typical: 20 };

test("a model with a pace declares its axis, and its table is that of the typical length", () => {
  const inputs = [{ name: "x", dims: ["batch", "T", 3] }];
  const { models } = parseEmulatedProfiles({
    models: [{ name: "text", dynamic: DYNAMIC, batchMax: 2, sloMs: 50, inputs }],
  });
  expect(models[0]).toMatchObject({
    axes: { T: { mode: "pad", sizes: [100], typical: 20 } },
    pace: DYNAMIC,
    profile: [
      [
        { batchSize: 1, latency: 5_000 },
        { batchSize: 2, latency: 6_000 },
      ],
    ],
  });
});

test("what a pace says must fit: mistakes are named with their paths", () => {
  const wrong = (dynamic: object, more: object = {}): string => {
    try {
      parseEmulatedProfiles({ models: [{ name: "text", sloMs: 50, dynamic, ...more }] });
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(wrong(DYNAMIC)).toBe("");
  expect(wrong({ ...DYNAMIC, max: 0 })).toContain("models[0].dynamic.max: is 0");
  expect(wrong({ ...DYNAMIC, typical: 101 })).toContain("models[0].dynamic.typical: is 101");
  expect(wrong({ max: 5 })).toContain("models[0].dynamic.unitMs: a batch takes some time");
  expect(wrong(DYNAMIC, { alphaMs: 1 })).toContain("models[0].alphaMs: stands beside dynamic");
  expect(wrong(DYNAMIC, { inputs: [{ name: "x", dims: ["batch", 3] }] })).toContain(
    "dynamic.axis: T is in the dims of no",
  );
});
