import { VirtualClock } from "@tutti/ports/clock";
import type { Engine, EngineBatch, RunOutcome } from "@tutti/ports/engine";
import type { ProfilePoints } from "@tutti/protocol";
import { type Micros, after, gpuId, micros, millis, seconds } from "@tutti/units";
import { beforeEach, expect, test } from "vitest";
import {
  type EngineDeath,
  RUN_LIMIT_MIN,
  RUN_LIMIT_UNKNOWN,
  WatchedEngine,
  firstRunLimitOf,
  runLimitFor,
  loadLimitOf,
  runLimitOf,
  tooSlowReason,
} from "./watched-engine.ts";

/** Answers when the test calls it to. */
class ManualEngine implements Engine {
  readonly type = "manual";
  readonly waiting: ((outcome: RunOutcome) => void)[] = [];
  readonly run: Engine["run"] = (_, done) => void this.waiting.push(done);
  readonly load: Engine["load"] = (_, done) => void this.waiting.push(() => done({ kind: "loaded", memoryBytes: 0 }));
  readonly unload: Engine["unload"] = (_, done) => done();
  readonly stop: Engine["stop"] = (done) => done();
  finish(outcome: RunOutcome = { kind: "ran", run: millis(1), outputs: [], failedRows: [] }): void {
    this.waiting.shift()!(outcome);
  }
}

let clock: VirtualClock;
let inner: ManualEngine;
let engine: WatchedEngine;
let deaths: (EngineDeath & { readonly at: number })[];
let ended: string[];

beforeEach(() => {
  clock = new VirtualClock();
  inner = new ManualEngine();
  deaths = [];
  ended = [];
  engine = new WatchedEngine(inner, {
    gpu: gpuId(3),
    clock,
    loadLimit: () => seconds(5),
    runLimit: () => millis(100),
    onDead: (death) => deaths.push({ ...death, at: clock.now() }),
  });
});
const batch = (model: string): EngineBatch => ({ model, bucket: 0, batchSize: 1, inputs: [] });
const run = (model: string): void => engine.run(batch(model), () => ended.push(model));
const pass = (time: Micros): void => clock.advanceTo(after(clock.now(), time));

test("a run that is past its deadline is the engine's end, to the microsecond, and names its model", () => {
  pass(millis(7));
  const startedAt = clock.now();
  run("endless");
  pass(micros(99_999));
  expect(deaths).toEqual([]);
  pass(micros(1));
  const reason = "a run of endless has not ended within 100 ms";
  const at = after(startedAt, millis(100));
  expect(deaths).toEqual([{ gpu: 3, model: "endless", doing: "run", rows: 1, startedAt, how: "hung", reason, at }]);
  inner.finish();
  expect(ended).toEqual([]);
});

test("a batch that waits behind others has its whole time from when it can start (WATCH-1)", () => {
  for (const model of ["a", "b", "c"]) run(model);
  pass(millis(90));
  inner.finish();
  pass(millis(90));
  inner.finish();
  pass(millis(99));
  expect([ended, deaths]).toEqual([["a", "b"], []]);
  pass(millis(1));
  expect(deaths).toMatchObject([{ model: "c", at: after(deaths[0]!.startedAt, millis(100)) }]);
});

test("a load has a deadline of its own", () => {
  engine.load({ spec: { name: "big" } as never, bytes: undefined }, () => ended.push("big"));
  pass(millis(4_999));
  expect(deaths).toEqual([]);
  pass(millis(1));
  expect(deaths).toMatchObject([{ model: "big", doing: "load", how: "hung" }]);
});

test("a fault that the engine reports is its end too, and its caller hears nothing of it (WATCH-3)", () => {
  run("a");
  run("b");
  inner.finish({ kind: "failed", reason: "device lost", fault: true });
  inner.finish();
  expect(deaths).toMatchObject([{ model: "a", how: "crashed", reason: "device lost" }]);
  expect(ended).toEqual([]);
});

test("runs that end in time end quietly, however many, and a failed batch is no fault", () => {
  for (let i = 0; i < 50; i++) {
    run("quick");
    pass(millis(60));
    inner.finish(i % 2 === 0 ? undefined : { kind: "failed", reason: "bad row", fault: false });
  }
  pass(seconds(10));
  expect([ended.length, deaths]).toEqual([50, []]);
});

/** A watched run of `limit`, on a clock whose alarms fire when the test says so. */
function stalling(limit: Micros) {
  let fire: () => void = () => undefined;
  let now = clock.now();
  const stopped = {
    now: () => now,
    alarm: (due: () => void) => {
      fire = due;
      return { set: () => undefined, clear: () => undefined };
    },
  };
  const dead: EngineDeath[] = [];
  const watched = new WatchedEngine(inner, {
    gpu: gpuId(0),
    clock: stopped as never,
    loadLimit: () => seconds(5),
    runLimit: () => limit,
    onDead: (death) => dead.push(death),
  });
  watched.run(batch("a"), () => ended.push("a"));
  const firesAfter = (time: Micros): void => {
    now = after(now, time);
    fire();
  };
  return { dead, firesAfter };
}

test("a process that was stopped in mid-run gives the run a whole deadline after it wakes (WATCH-2)", () => {
  const { dead, firesAfter } = stalling(millis(100));
  for (let stops = 0; stops < 5; stops++) firesAfter(seconds(2));
  expect(dead).toEqual([]);
  firesAfter(millis(100));
  expect(dead).toHaveLength(1);
});

test("on a machine that is short of processors, where every alarm is late, a run that hangs ends all the same", () => {
  const { dead, firesAfter } = stalling(seconds(2));
  for (let alarms = 0; alarms < 2; alarms++) firesAfter(seconds(2.5));
  expect(dead).toEqual([]);
  firesAfter(seconds(2.5));
  expect(dead).toHaveLength(1);
});

test("a deadline is twenty times the planned latency, also of a batch that is run again row by row, and never short", () => {
  const points: ProfilePoints = [1, 2, 4, 8].map((batchSize) => ({ batchSize, latency: millis(100 + 10 * batchSize) }));
  expect(runLimitOf(points, { batchSize: 1 })).toBe(20 * 110_000);
  expect(runLimitOf(points, { batchSize: 5 })).toBe(20 * 5 * 110_000);
  expect(runLimitOf([{ batchSize: 1, latency: millis(1) }], { batchSize: 1 })).toBe(RUN_LIMIT_MIN);
  expect(runLimitOf(points, { batchSize: 1, times: 4 })).toBe(4 * 20 * 110_000);
  expect(runLimitOf([], { batchSize: 1 })).toBe(undefined);
});

test("a first run is waited for as long as its SLO, its batch and its file give reason to, and a CPU's never longer than a compiler's", () => {
  const limit = (sloMs: number, batchSize = 1, bytes = 0, engineType = "onnx-cpu"): number =>
    firstRunLimitOf({ slo: millis(sloMs), file: { object: "m", sha256: "", bytes } }, { batchSize, engineType });
  expect(limit(50)).toBe(10_200_000);
  expect(limit(50, 32)).toBe(16_400_000);
  expect(limit(50, 1, 100_000_000)).toBe(20_200_000);
  expect(limit(50, 1, 0, "onnx-cpu-50")).toBe(10_200_000);
  expect([limit(10_000), limit(50, 1, 0, "onnx-webgpu")]).toEqual([RUN_LIMIT_UNKNOWN, RUN_LIMIT_UNKNOWN]);
  // Rows that take as long as a long SLO allows are measured, with the first size beyond it.
  expect([limit(60_000), limit(60_000, 1, 0, "onnx-webgpu")]).toEqual([120_000_000, 120_000_000]);
  const file = { object: "m", sha256: "", bytes: 50_000_000 };
  // A load includes one run of a row, as long as that may take.
  const load = (type: string, more: object = {}) => loadLimitOf({ file, slo: millis(50), ...more }, type);
  expect([load("onnx-cpu"), load("onnx-cuda")]).toEqual([15_000_000 + 15_200_000, 35_000_000 + RUN_LIMIT_UNKNOWN]);
  expect(load("onnx-cpu", { runDeadline: seconds(60) })).toBe(15_000_000 + 60_000_000);
});

test("only one row that outlasts its deadline before the model is measured says that the model is too slow", () => {
  const spec = { name: "slow", slo: millis(50) };
  const death = { gpu: gpuId(0), model: "slow", doing: "run", rows: 1, startedAt: clock.now(), how: "hung" } as const;
  const reasonOf = (changes: Partial<EngineDeath> = {}, status?: object, more: object = {}) =>
    tooSlowReason({ ...death, reason: "a run of slow has not ended within 10.2 s", ...changes }, {
      spec: { ...spec, ...more },
      status,
    } as unknown as Parameters<typeof tooSlowReason>[1]);
  expect(reasonOf()).toMatch(
    /^one row takes too long for its SLO of 50 ms \(a run of slow has not ended within 10.2 s\): load it with a larger SLO, .*--release slow/,
  );
  expect(reasonOf()).toContain("--sample");
  // Samples change nothing about a load, nor a larger SLO where the model has a deadline of its own.
  expect(reasonOf({ doing: "load" }, { profiles: [] })).toMatch(
    /load it with a larger SLO, or with `run_deadline` [^-]*; "tutti/,
  );
  expect(reasonOf({}, undefined, { runDeadline: seconds(60) })).toMatch(
    /for its `run_deadline` .*: load it with a longer one, or/,
  );
  const measured = { profiles: [[{ batchSize: 1, latency: millis(5) }]] };
  expect([reasonOf({ rows: 2 }), reasonOf({ how: "crashed" }), reasonOf({}, measured)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("a run is waited for as its own engine's type was measured, and on a GPU as long as a new shape takes", () => {
  const at = (times: number) =>
    [1, 16].map((batchSize) => ({ batchSize, latency: micros(times * (2_000 + 400 * batchSize)) }));
  const spec = { name: "m", slo: millis(50), batchSizeMax: 16, axes: {}, inputs: [], buckets: [{}] };
  const byType = [
    { type: "onnx-cuda", profiles: [at(1)], means: [at(1)] },
    { type: "onnx-cpu", profiles: [at(100)], means: [at(100)], unfit: true },
  ];
  const model = { spec, status: { profiles: [at(1)], byType } } as unknown as Parameters<typeof runLimitFor>[0];
  const limit = (engineType: string): number => runLimitFor(model, { bucket: 0, batchSize: 16 }, engineType);
  expect(limit("onnx-cpu")).toBe(20 * 16 * 240_000);
  expect(limit("onnx-cuda")).toBe(10_000_000);
  // Not measured yet: as the first run of any model.
  expect(limit("onnx-cpu-50")).toBe(firstRunLimitOf(spec as never, { batchSize: 16, engineType: "onnx-cpu-50" }));
});
