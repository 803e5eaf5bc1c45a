/** Accelerators of two types in one pool, and a model that only the fast ones can serve, in virtual time. */
import type { Engine } from "@tutti/ports/engine";
import { BUCKET, type ModelStatus } from "@tutti/protocol";
import { gpuId, micros, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

/** l(1) is 5 ms on the fast type and 20 ms on the slow one: one model has no time for that. */
const URGENT = { name: "urgent", alphaMs: 1, betaMs: 4, sloMs: 16, batchSizeMax: 8 } as const;
const PATIENT = { name: "patient", alphaMs: 1, betaMs: 4, sloMs: 120, batchSizeMax: 8 } as const;

/** Two fast accelerators, and two of lower ids that come later and take four times as long. */
function unlike(): { cluster: VirtualCluster; ran: Map<string, number> } {
  /** Batches by model and type. */
  const ran = new Map<string, number>();
  let isSlow = false;
  const wrapEngine = (engine: Engine): Engine => (isSlow ? slow(engine) : counted(engine, "fast"));
  const counted = (engine: Engine, type: string): Engine => ({
    type,
    load: (model, done) => engine.load(model, done),
    unload: (name, done) => engine.unload(name, done),
    stop: (done) => engine.stop(done),
    run: (batch, done) => {
      const key = `${batch.model} ${type}`;
      ran.set(key, (ran.get(key) ?? 0) + 1);
      engine.run(batch, done);
    },
  });
  const slow = (engine: Engine): Engine => {
    const own = counted(engine, "slow");
    return {
      ...own,
      latencyOf: (_, __, batchSize) => millis(4 * (4 + batchSize)),
      run: (batch, done) =>
        own.run(batch, (outcome) => {
          if (outcome.kind === "failed") return done(outcome);
          cluster.later(micros(3 * outcome.run), () => done({ ...outcome, run: micros(4 * outcome.run) }));
        }),
    };
  };
  const cluster = new VirtualCluster({ seed: 1, gpus: 2, executors: 2, batchers: 1, wrapEngine });
  cluster.addModel(URGENT);
  cluster.addModel(PATIENT);
  cluster.startExecutor("fast", [gpuId(2), gpuId(3)]);
  cluster.run(seconds(3));
  for (const name of ["executor-0", "executor-1"]) cluster.drain(name);
  cluster.run(seconds(2));
  isSlow = true;
  for (const gpu of [0, 1]) cluster.startExecutor(`slow-${gpu}`, [gpuId(gpu)]);
  cluster.run(seconds(5));
  ran.clear();
  return { cluster, ran };
}

test("a model that the slow type can't serve in time gets the fast ones alone, others get both, and nothing is lost", () => {
  const { cluster, ran } = unlike();
  const urgent = cluster.load("urgent", { rate: 200, duration: seconds(3), sloMs: 16 });
  expect([...ran.keys()]).toEqual(["urgent fast"]);
  const patient = cluster.load("patient", { rate: 300, duration: seconds(3), sloMs: 120 });
  cluster.run(seconds(1));
  expect(ran.get("patient slow")).toBeGreaterThan(50);
  for (const asked of [patient, urgent]) {
    expect(asked.filter(({ outcomes }) => outcomes.length !== 1)).toEqual([]);
    const lost = asked.filter(({ outcomes }) => outcomes[0]?.status !== "ok").length;
    expect(lost).toBe(0);
  }
});

test("requests that have waited too long for a slow accelerator are served by a fast one, and none is lost", () => {
  const { cluster, ran } = unlike();
  const hurried = cluster.load("patient", { rate: 900, duration: seconds(2), sloMs: 26 });
  cluster.run(seconds(1));
  expect(ran.get("patient slow")).toBeGreaterThan(100);
  expect(hurried.filter(({ outcomes }) => outcomes[0]?.status !== "ok")).toEqual([]);
});

test("a request whose SLO only the fast type can meet is let in, and served there", () => {
  const { cluster, ran } = unlike();
  const hurried = cluster.load("patient", { rate: 50, duration: seconds(1), sloMs: 15 });
  cluster.run(seconds(1));
  expect(hurried.filter(({ outcomes }) => outcomes[0]?.status !== "ok")).toEqual([]);
  expect([...ran.keys()]).toEqual(["patient fast"]);
});

test("a model is ready once slow accelerators are measured too, also beside as many fast ones as measure at once", () => {
  const wrapEngine = (engine: Engine, gpu: number): Engine => {
    const factor = gpu < 4 ? 1 : 4;
    return {
      type: factor === 1 ? "fast" : "slow",
      latencyOf: (_, __, batchSize) => millis(factor * (4 + batchSize)),
      load: (model, done) => engine.load(model, done),
      unload: (name, done) => engine.unload(name, done),
      stop: (done) => engine.stop(done),
      run: (batch, done) => engine.run(batch, done),
    };
  };
  const cluster = new VirtualCluster({ seed: 1, gpus: 8, executors: 2, batchers: 1, wrapEngine });
  const ready: ModelStatus[] = [];
  cluster.store.watch(BUCKET.profiles, PATIENT.name, {
    onEntry: ({ value }) => void ready.push(fromJson(value) as ModelStatus),
    onDelete: () => undefined,
    onReady: () => undefined,
    onFailure: () => undefined,
  });
  cluster.addModel({ ...PATIENT, isUnmeasured: true });
  cluster.run(seconds(2));
  expect(ready[0]).toMatchObject({ state: "ready", executorTypes: ["fast", "slow"] });
  expect(ready[0]!.profiles[0]![0]).toEqual({ batchSize: 1, latency: millis(20) });
  expect(ready[0]!.byType!.map(({ type }) => type).sort()).toEqual(["fast", "slow"]);
});

/** Requests to a model on two fast accelerators and two slow ones, which take `drift` times as long as they tell. */
function servedWhile(drift: number, asks: { rate: number; sloMs: number }): { late: number; refused: number } {
  const cluster: VirtualCluster = new VirtualCluster({
    ...{ seed: 1, gpus: 4, executors: 2, batchers: 1 },
    wrapEngine: (engine: Engine, gpu: number): Engine => {
      const isSlow = gpu >= 2;
      return {
        type: isSlow ? "slow" : "fast",
        latencyOf: (_, __, batchSize) => millis((isSlow ? 4 : 1) * (4 + batchSize)),
        load: (model, done) => engine.load(model, done),
        unload: (name, done) => engine.unload(name, done),
        stop: (done) => engine.stop(done),
        run: (batch, done) =>
          engine.run(batch, (outcome) => {
            if (!isSlow || outcome.kind === "failed") return done(outcome);
            const run = micros(Math.round(4 * drift * outcome.run));
            cluster.later(micros(run - outcome.run), () => done({ ...outcome, run }));
          }),
      };
    },
  });
  cluster.addModel({ ...PATIENT, isUnmeasured: true });
  cluster.run(seconds(2));
  // Every size runs often enough to be known.
  cluster.load("patient", { rate: 900, duration: seconds(6), sloMs: 120 });
  const asked = cluster.load("patient", { ...asks, duration: seconds(4) });
  cluster.run(seconds(1));
  const answers = asked.flatMap(({ deadline, outcomes }) => outcomes.map((one) => ({ ...one, deadline })));
  expect(answers.length).toBe(asked.length);
  return {
    late: answers.filter(({ status, at, deadline }) => status === "ok" && at > deadline).length,
    refused: answers.filter(({ status }) => status !== "ok").length,
  };
}

test.each([0.8, 1, 1.2])(
  "requests that only the fast type can serve fare the same while the slow one takes %d times as long as was measured",
  (drift) => {
    // planned as much shorter or longer as the slow type, 21 were late and 54 refused, or 133 refused
    expect(servedWhile(drift, { rate: 1_000, sloMs: 20 })).toEqual({ late: 0, refused: 21 });
  },
);

test("accelerators that come back under another type serve by the latencies that were stored, till they are measured", () => {
  let type = "onnx-cuda";
  const cluster = new VirtualCluster({
    ...{ seed: 1, gpus: 2, executors: 2, batchers: 1 },
    wrapEngine: (engine: Engine): Engine => ({
      type,
      load: (model, done) => engine.load(model, done),
      unload: (name, done) => engine.unload(name, done),
      stop: (done) => engine.stop(done),
      run: (batch, done) => engine.run(batch, done),
    }),
  });
  const statuses: ModelStatus[] = [];
  cluster.store.watch(BUCKET.profiles, PATIENT.name, {
    onEntry: ({ value }) => void statuses.push(fromJson(value) as ModelStatus),
    onDelete: () => undefined,
    onReady: () => undefined,
    onFailure: () => undefined,
  });
  cluster.addModel({ ...PATIENT, isUnmeasured: true });
  cluster.run(seconds(5));
  expect(statuses.at(-1)).toMatchObject({ state: "ready", executorTypes: ["onnx-cuda"] });
  for (const name of ["executor-0", "executor-1"]) cluster.drain(name);
  cluster.run(seconds(2));
  const before = statuses.length;

  type = "onnx-cuda-h200";
  for (const gpu of [0, 1]) cluster.startExecutor(`executor-${gpu}`, [gpuId(gpu)]);
  cluster.run(millis(500));
  const asked = cluster.load("patient", { rate: 100, duration: seconds(8), sloMs: 120 });
  cluster.run(seconds(1));
  expect(asked.filter(({ outcomes }) => outcomes[0]?.status !== "ok")).toEqual([]);
  const since = statuses.slice(before);
  expect(since.map(({ state }) => state).filter((state) => state !== "ready")).toEqual([]);
  expect(since.at(-1)).toMatchObject({
    executorTypes: ["onnx-cuda-h200"],
    byType: [{ type: "onnx-cuda" }, { type: "onnx-cuda-h200" }],
  });
});
