import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { type ModelSpec, type ModelStatus, isModelSpec, isModelStatus } from "./model-spec.ts";

const SPEC: ModelSpec = {
  ...{ name: "mlp/2", number: 7, version: "2", slo: micros(50_000), batchSizeMax: 8, patience: 1 },
  engine: "onnx",
  file: { object: "o", sha256: "s", bytes: 100 },
  ...{
    shares: { camera: 3, "*": 1 },
    priorityFloor: 0.1,
    runDeadline: micros(900_000),
    memory: 1_000,
    independentRows: true,
  },
  scaleToZero: { idle: micros(600e6), coldStart: micros(30e6) },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", "T"] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", "U"] }],
  constants: [{ name: "rate", type: "INT64", dims: [1], values: [16_000] }],
  axes: { T: { mode: "pad", sizes: [64], padValue: 0, multiple: 16, typical: 32, padValues: { x: -1 } } },
  made: [{ name: "mask", type: "BOOL", dims: ["batch", "T"], made: "mask", axis: "T" }],
  cuts: { U: { axis: "T", divide: 2, add: 1 } },
  buckets: [{}],
  profile: [[{ batchSize: 1, latency: micros(100) }]],
  pace: { fixedMs: 1, unitMs: 0.1, rowUnitMs: 0, max: 64, typical: 8 },
  presentation: { anything: [1] },
};

test("a model is accepted with all that it may have, and members that a newer release adds", () => {
  expect(isModelSpec(JSON.parse(JSON.stringify({ ...SPEC, added: 1 })))).toBe(true);
});

test("weights and floors that can't be read leave the model served", () => {
  expect(isModelSpec({ ...SPEC, shares: 7, priorityFloor: "x" })).toBe(true);
});

test("a model with a member that would break a reader is none (T8)", () => {
  const axis = SPEC.axes["T"]!;
  const bad: readonly object[] = [
    ...[{ name: "mlp/3" }, { name: "a b" }, { number: 2 ** 25 }, { engine: "other" }, { patience: 2 }, { file: {} }],
    ...[
      { memory: -1 },
      { presentation: [] },
      { axes: [] },
      { buckets: [{ T: 0 }] },
      { samples: 7 },
      { independentRows: 1 },
    ],
    ...[0, 700e6, 0.5].map((slo) => ({ slo })),
    ...[0, 700e6, "1s"].map((runDeadline) => ({ runDeadline })),
    ...[{ idle: 1e6, coldStart: 1e6 }, { idle: 6e6, coldStart: 700e6 }, { idle: 6e6 }, 7].map((scaleToZero) => ({
      scaleToZero,
    })),
    ...[{ dims: ["batch", -1] }, { dims: ["batch", 2 ** 30] }, { type: "toString" }, { name: 7 }].map((one) => ({
      inputs: [{ ...SPEC.inputs[0], ...one }],
    })),
    ...[[Infinity], ["1"], 1].map((values) => ({ constants: [{ ...SPEC.constants[0], values }] })),
    ...[{ multiple: 65 }, { typical: 65 }, { sizes: [0] }, { padValue: "0" }, { padValues: [1] }, { mode: "cut" }].map(
      (one) => ({ axes: { T: { ...axis, ...one } } }),
    ),
    { made: [{ ...SPEC.made![0], axis: "other" }] },
    { cuts: { U: { axis: "T", divide: 0, add: 1 } } },
    { profile: [[...SPEC.profile![0]!, ...SPEC.profile![0]!]] },
    { pace: { ...SPEC.pace, unitMs: Infinity } },
  ];
  for (const one of bad) expect(isModelSpec({ ...SPEC, ...one }), JSON.stringify(one)).toBe(false);
  for (const one of [null, [], "x"]) expect(isModelSpec(one)).toBe(false);
});

test("a status is accepted as the profiler writes it, and in no other form (T8)", () => {
  const status: ModelStatus = {
    ...{ name: "mlp", number: 7, version: "1", reason: "", executorTypes: ["cpu"] },
    state: "ready",
    profiles: [[{ batchSize: 1, latency: micros(100) }]],
    means: [],
  };
  expect(isModelStatus(status)).toBe(true);
  const typed = { type: "cpu", profiles: status.profiles, means: [] };
  for (const more of [{}, { unfit: true }, { live: status.profiles }, { live: [] }])
    expect(isModelStatus({ ...status, byType: [{ ...typed, ...more }] }), JSON.stringify(more)).toBe(true);
  for (const live of [null, {}, [[{ batchSize: 1, latency: -1 }]]])
    expect(isModelStatus({ ...status, byType: [{ ...typed, live }] }), JSON.stringify(live)).toBe(false);
  for (const one of [
    ...[
      { state: "constructor" },
      { reason: undefined },
      { number: -1 },
      { profiles: [[{ batchSize: 0, latency: 1 }]] },
    ],
    ...[{ means: {} }, { executorTypes: [1] }],
  ])
    expect(isModelStatus({ ...status, ...one }), JSON.stringify(one)).toBe(false);
});
