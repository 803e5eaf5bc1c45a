import { expect, test } from "vitest";
import type { ModelSpec } from "@tutti/protocol";
import { type Instant, NEVER, instant, micros } from "@tutti/units";
import { type EmulatedEngineOptions, EmulatedEngine, type EngineBatch, type RunOutcome } from "./index.ts";

/** The least clock that an engine can sleep on: alarms fire in order of their instants. */
class HandClock {
  #now = instant(1_000_000);
  readonly #alarms: { at: Instant; fire: () => void }[] = [];
  now(): Instant {
    return this.#now;
  }
  alarm(fire: () => void): { set(at: Instant): void } {
    const alarm = { at: NEVER, fire };
    this.#alarms.push(alarm);
    return { set: (at) => void (alarm.at = at) };
  }
  advanceTo(offset: number): void {
    for (;;) {
      const next = this.#alarms.reduce((a, b) => (b.at < a.at ? b : a));
      if (next.at > 1_000_000 + offset) break;
      this.#now = Math.max(this.#now, next.at) as Instant;
      next.at = NEVER;
      next.fire();
    }
    this.#now = (1_000_000 + offset) as Instant;
  }
  get offset(): number {
    return this.#now - 1_000_000;
  }
}

const model: ModelSpec = {
  name: "echo",
  number: 1,
  version: "1",
  engine: "emulated",
  slo: micros(50_000),
  batchSizeMax: 8,
  patience: 1,
  inputs: [{ name: "x", type: "UINT8", dims: ["batch", 3] }],
  outputs: [
    { name: "same", type: "UINT8", dims: ["batch", 3] },
    { name: "longer", type: "UINT8", dims: ["batch", 2, 4] },
    { name: "shorter", type: "UINT8", dims: ["batch", 1] },
    { name: "batch-last", type: "UINT8", dims: [2, "batch"] },
    { name: "rowless", type: "UINT8", dims: [2] },
  ],
  constants: [],
  axes: {},
  buckets: [{}],
};
const batchOf = (batchSize: number, first = 1): EngineBatch => ({
  model: "echo",
  bucket: 0,
  batchSize,
  inputs: [
    {
      name: "x",
      type: "UINT8",
      dims: [batchSize, 3],
      data: Uint8Array.from({ length: 3 * batchSize }, (_, i) => first + i),
    },
  ],
});

function engineWith(options: Partial<EmulatedEngineOptions> = {}) {
  const clock = new HandClock();
  const latency = (_: string, bucket: number, b: number) => (bucket === 0 ? micros(1_000 + 100 * b) : undefined);
  const engine = new EmulatedEngine({ clock, latency, ...options });
  const log: { batch: number; at: number; outcome: RunOutcome }[] = [];
  let given = 0;
  engine.load({ spec: model, bytes: undefined }, () => undefined);
  const run = (batch: EngineBatch): void => {
    const number = given++;
    engine.run(batch, (outcome) => void log.push({ batch: number, at: clock.offset, outcome }));
  };
  const reasons = () => log.map(({ outcome }) => (outcome.kind === "failed" ? outcome.reason : "ran"));
  return { clock, engine, log, run, reasons };
}

test("batches run one at a time in the order given, each for its latency, and report when it is over (EMULATED-1)", () => {
  const { clock, log, run } = engineWith();
  for (const size of [1, 8, 2]) run(batchOf(size));
  clock.advanceTo(500);
  run(batchOf(4));
  expect(log).toEqual([]);
  clock.advanceTo(10_000);
  expect(log.map(({ batch, at }) => [batch, at])).toEqual([
    [0, 1_100],
    [1, 2_900],
    [2, 4_100],
    [3, 5_500],
  ]);
  expect(log.map(({ outcome }) => outcome.kind === "ran" && outcome.run)).toEqual([1_100, 1_800, 1_200, 1_400]);
});

test("every output row echoes its own request's bytes, wherever the batch axis lies (EMULATED-2)", () => {
  const { clock, log, run } = engineWith();
  run(batchOf(2));
  clock.advanceTo(10_000);
  const outcome = log[0]?.outcome;
  expect(outcome?.kind === "ran" && outcome.outputs.map(({ name, dims, data }) => [name, dims, [...data]])).toEqual([
    ["same", [2, 3], [1, 2, 3, 4, 5, 6]],
    ["longer", [2, 2, 4], [1, 2, 3, 1, 2, 3, 1, 2, 4, 5, 6, 4, 5, 6, 4, 5]],
    ["shorter", [2, 1], [1, 4]],
    ["batch-last", [2, 2], [1, 4, 2, 5]],
    ["rowless", [2], [0, 0]],
  ]);
});

test("the caller loses the inputs it gave", () => {
  const { run } = engineWith();
  const batch = batchOf(2);
  run(batch);
  expect(batch.inputs[0]?.data.byteLength).toBe(0);
  const view = {
    ...batchOf(1),
    inputs: [{ name: "x", type: "UINT8", dims: [1, 3], data: new Uint8Array(8).subarray(0, 3) } as const],
  };
  expect(() => run(view)).toThrow("its own buffer");
});

test("what can't run fails with its reason, and the batches around it run", () => {
  const { clock, log, run, reasons } = engineWith();
  run(batchOf(1));
  run({ ...batchOf(1), model: "other" });
  run({ ...batchOf(1), bucket: 3 });
  run(batchOf(9));
  run({ ...batchOf(1), inputs: [] });
  run({ ...batchOf(1), batchSize: 2 });
  run(batchOf(1));
  expect(log).toEqual([]);
  clock.advanceTo(10_000);
  expect(reasons()).toEqual([
    "ran",
    "other isn't loaded",
    "echo has no bucket 3",
    "echo takes batches of 1 to 8, not of 9",
    "echo takes 1 inputs, not 0",
    "input 0 of echo is x UINT8 [2,3], not x UINT8 [1,3]",
    "ran",
  ]);
});

test("a batch beyond the bound fails, and those that wait are untouched (EMULATED-3)", () => {
  const { clock, run, reasons } = engineWith({ queueMax: 2 });
  for (let i = 0; i < 4; i++) run(batchOf(1));
  clock.advanceTo(10_000);
  expect(reasons()).toEqual(["2 batches wait already", "ran", "ran", "ran"]);
});

test("faults reach the batch that they are meant for", () => {
  const { clock, log, run } = engineWith({
    fault: (_, runs) =>
      runs === 0
        ? { kind: "rows", failedRows: [{ row: 1, reason: "bad row" }] }
        : runs === 1
          ? { kind: "batch", reason: "device lost", fault: true }
          : runs === 3
            ? { kind: "hang" }
            : undefined,
  });
  for (let i = 0; i < 5; i++) run(batchOf(2));
  clock.advanceTo(1e6);
  expect(log.map(({ outcome }) => (outcome.kind === "ran" ? outcome.failedRows : outcome))).toEqual([
    [{ row: 1, reason: "bad row" }],
    { kind: "failed", reason: "device lost", fault: true },
    [],
  ]);
});

test("unloading and stopping wait for the batches that were given before, and refuse those after", () => {
  const { clock, engine, run, reasons } = engineWith();
  const log: [string, number][] = [];
  run(batchOf(1));
  run(batchOf(1));
  engine.unload("echo", () => void log.push(["unloaded", clock.offset]));
  engine.unload("unknown", () => void log.push(["unknown", clock.offset]));
  run(batchOf(1));
  engine.stop(() => void log.push(["stopped", clock.offset]));
  run(batchOf(1));
  expect(log).toEqual([]);
  clock.advanceTo(10_000);
  expect(log).toEqual([
    ["unknown", 0],
    ["unloaded", 2_200],
    ["stopped", 2_200],
  ]);
  expect(reasons()).toEqual(["the engine is stopped", "ran", "ran", "echo isn't loaded"]);
});

test("jitter spreads the runs about the profile, and equal seeds spread them equally", () => {
  const runs = (seed: number): number[] => {
    const { clock, log, run } = engineWith({ jitter: { seed, spread: 0.2 } });
    for (let i = 0; i < 50; i++) run(batchOf(1));
    clock.advanceTo(1e6);
    return log.map(({ outcome }) => (outcome.kind === "ran" ? outcome.run : NaN));
  };
  expect(runs(1)).toEqual(runs(1));
  expect(runs(1)).not.toEqual(runs(2));
  expect(Math.min(...runs(1))).toBeGreaterThanOrEqual(880);
  expect(Math.max(...runs(1))).toBeLessThanOrEqual(1_320);
  expect(new Set(runs(1)).size).toBeGreaterThan(25);
});

test("a model without a profile fails to load", () => {
  const { clock, engine } = engineWith({ latency: () => undefined });
  let outcome: unknown;
  engine.load({ spec: model, bytes: undefined }, (o) => void (outcome = o));
  expect(outcome).toBe(undefined);
  clock.advanceTo(0);
  expect(outcome).toEqual({ kind: "failed", reason: "no profile says how long echo takes" });
});

test("with a pace a batch takes as long as its longest row says, by its axis or by its first number, and echoes any length", () => {
  const { clock, engine, log, run } = engineWith();
  const pace = { fixedMs: 1, unitMs: 0.1, rowUnitMs: 0.05, max: 100, typical: 10 };
  const tensors = { inputs: [{ name: "x", type: "FP32", dims: ["batch", "T"] }] } as const;
  const axes = { T: { mode: "pad", sizes: [100], padValue: 0 } } as const;
  const text: ModelSpec = {
    ...{ ...model, ...tensors, name: "text", axes, pace: { ...pace, axis: "T" } },
    outputs: [{ name: "y", type: "FP32", dims: ["batch", "T"] }],
  };
  engine.load({ spec: text, bytes: undefined }, () => undefined);
  const value: ModelSpec = { ...text, name: "value", axes: {}, pace };
  const fixed = { inputs: [{ name: "x", type: "FP32", dims: ["batch", 2] }], outputs: [] } as const;
  engine.load({ spec: { ...value, ...fixed }, bytes: undefined }, () => undefined);
  const x = (rows: number, values: number[]) => ({
    batchSize: rows,
    bucket: 0,
    inputs: [
      {
        ...({ name: "x", type: "FP32", dims: [rows, values.length / rows] } as const),
        data: new Uint8Array(Float32Array.from(values).buffer),
      },
    ],
  });
  run({ model: "text", ...x(2, [1, 2, 3, 4, 5, 6, 7, 8]), units: [4, 2] });
  run({ model: "value", ...x(3, [20, 0, 40, 0, -1, 0]) });
  run({ model: "value", ...x(1, [1e9, 0]) });
  clock.advanceTo(100_000);
  const runs = log.map(({ outcome }) => outcome.kind === "ran" && outcome.run);
  expect(runs).toEqual([1_000 + 4 * 200, 1_000 + 40 * 250, 1_000 + 100 * 150]);
  const [first] = log;
  expect(first?.outcome.kind === "ran" && first.outcome.outputs[0]?.dims).toEqual([2, 4]);
});
