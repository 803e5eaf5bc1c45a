/**
 * An executor that takes another's place on one accelerator, as in `tutti split`. It is held until the other one has
 * ended, in virtual time.
 */
import type { ExecutorPorts } from "@tutti/executor";
import type { Engine } from "@tutti/ports/engine";
import { BUCKET, type ModelStatus, isModelStatus } from "@tutti/protocol";
import { gpuId, micros, millis, seconds } from "@tutti/units";
import { fromJson, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

const MODEL = { name: "m", alphaMs: 1, betaMs: 4, sloMs: 500, batchSizeMax: 8 } as const;

test("one that is held loads and is ready, but runs nothing until it is let go; then nothing is lost in between", () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    /** Batches by accelerator: those that ran, those under way, and the most accelerators with some at once. */
    const ran = new Map<number, number>();
    const under = new Map<number, number>();
    let most = 0;
    const wrapEngine = (engine: Engine, gpu: number): Engine => ({
      type: engine.type,
      load: (model, done) => engine.load(model, done),
      unload: (name, done) => engine.unload(name, done),
      stop: (done) => engine.stop(done),
      run(batch, done) {
        ran.set(gpu, (ran.get(gpu) ?? 0) + 1);
        under.set(gpu, (under.get(gpu) ?? 0) + 1);
        most = Math.max(most, [...under.values()].filter((count) => count > 0).length);
        engine.run(batch, (outcome) => {
          under.set(gpu, under.get(gpu)! - 1);
          done(outcome);
        });
      },
    });
    const cluster = new VirtualCluster({ seed, gpus: 1, executors: 1, batchers: 1, wrapEngine });
    cluster.addModel(MODEL);
    cluster.run(seconds(3));
    const asked = cluster.load("m", { rate: 100, duration: seconds(1), sloMs: 500 });

    let release: (() => void) | undefined;
    const held: ExecutorPorts["held"] = (let_) => (release = let_);
    for (const gpu of [1, 2]) cluster.startExecutor(`part-${gpu}`, [gpuId(gpu)], [], { held });
    ran.clear();
    asked.push(...cluster.load("m", { rate: 100, duration: seconds(2), sloMs: 500 }));
    expect(release).toBeDefined();
    expect([ran.has(1), ran.has(2)]).toEqual([false, false]);
    expect(ran.get(0)).toBeGreaterThan(0);
    cluster.drain("executor-0");
    cluster.run(millis(300));
    expect([ran.has(1), ran.has(2)]).toEqual([false, false]);
    expect(most).toBe(1);
    release?.();
    ran.clear();
    asked.push(...cluster.load("m", { rate: 100, duration: seconds(1), sloMs: 500 }));
    cluster.run(seconds(2));
    // Only the last held executor was released.
    expect([ran.has(0), ran.has(1), ran.has(2)]).toEqual([false, false, true]);
    expect(asked.filter(({ outcomes }) => outcomes.length !== 1)).toEqual([]);
    expect(asked.length).toBeGreaterThan(300);
  }
});

test.each(["tells", "is measured"] as const)(
  "a type of executor that comes later is planned as it is, and plans follow those that are left: one that %s",
  (how) => {
    /** Batch sizes by accelerator; the second one takes twice as long. */
    const sizes: [number[], number[]] = [[], []];
    const wrapEngine = (engine: Engine, gpu: number): Engine => {
      const latencyOf = (_: string, __: number, batchSize: number) => millis(2 * (4 + batchSize));
      return {
        type: gpu === 0 ? engine.type : "slower",
        ...(how === "tells" && gpu === 1 && { latencyOf }),
        load: (model, done) => engine.load(model, done),
        unload: (name, done) => engine.unload(name, done),
        stop: (done) => engine.stop(done),
        run: (batch, done) => {
          sizes[gpu]!.push(batch.batchSize);
          engine.run(batch, (outcome) => {
            if (gpu === 0 || outcome.kind === "failed") return done(outcome);
            cluster.later(outcome.run, () => done({ ...outcome, run: micros(2 * outcome.run) }));
          });
        },
      };
    };
    const cluster = new VirtualCluster({ seed: 1, gpus: 1, executors: 1, batchers: 1, wrapEngine });
    const statusOf = (): ModelStatus => {
      let status: unknown;
      cluster.store.get(BUCKET.profiles, "m", (entry) => {
        if (typeof entry === "object" && "value" in entry) status = fromJson(entry.value);
      });
      if (!isModelStatus(status)) throw new Error(`no status: ${JSON.stringify(status)}`);
      return status;
    };
    /** l(1) and l(8) of the plans. */
    const plannedMs = (): (number | undefined)[] => {
      const points = statusOf().profiles[0] ?? [];
      return [points[0], points.at(-1)].map((point) => point && Math.round(point.latency / 1_000));
    };
    cluster.addModel(MODEL);
    cluster.run(seconds(3));
    expect(plannedMs()).toEqual([5, 12]);

    cluster.startExecutor("executor-1", [gpuId(1)]);
    cluster.run(seconds(5));
    expect(plannedMs()).toEqual([10, 24]);
    expect(statusOf()).toMatchObject({
      executorTypes: ["emulated", "slower"],
      byType: [{ type: "emulated" }, { type: "slower" }],
    });
    // While both serve, a batch is formed for the one that runs it.
    sizes[0].length = sizes[1].length = 0;
    const together = cluster.load("m", { rate: 850, duration: seconds(4), sloMs: 40 });
    const mean = (all: readonly number[]): number => all.reduce((sum, size) => sum + size, 0) / all.length;
    expect([sizes[0].length > 50, sizes[1].length > 20]).toEqual([true, true]);
    // As planned with the slowest it would be 1.04.
    expect(mean(sizes[0]) / mean(sizes[1])).toBeGreaterThan(1.08);
    cluster.run(seconds(1));
    const lost = together.filter(({ outcomes }) => outcomes[0]?.status !== "ok").length;
    expect(lost / together.length).toBeLessThan(0.01);

    cluster.drain("executor-0");
    cluster.run(seconds(3));
    // Even the first batches on it are in time, since they are planned with its own latencies.
    const asked = cluster.load("m", { rate: 100, duration: seconds(2), sloMs: 30 });
    cluster.run(seconds(1));
    expect(asked.flatMap(({ outcomes }) => outcomes.map(({ status }) => status)).filter((one) => one !== "ok")).toEqual(
      [],
    );
    cluster.startExecutor("executor-0", [gpuId(0)]);
    cluster.run(seconds(3));
    cluster.drain("executor-1");
    cluster.run(seconds(5));
    expect(plannedMs()).toEqual([5, 12]);
  },
);

test("a model that was refused since it was ready is not made ready again by what it takes on a new type", () => {
  const wrapEngine = (engine: Engine, gpu: number): Engine => ({
    type: gpu === 0 ? engine.type : "slower",
    latencyOf: (_: string, __: number, batchSize: number) => millis(10 * batchSize),
    load: (model, done) => engine.load(model, done),
    unload: (name, done) => engine.unload(name, done),
    stop: (done) => engine.stop(done),
    run: (batch, done) => engine.run(batch, done),
  });
  const cluster = new VirtualCluster({ seed: 1, gpus: 1, executors: 1, batchers: 1, wrapEngine });
  cluster.addModel(MODEL);
  cluster.run(seconds(3));
  const stateOf = (): string | undefined => {
    let state: string | undefined;
    cluster.store.get(BUCKET.profiles, "m", (entry) => {
      const status = typeof entry === "object" && "value" in entry ? fromJson(entry.value) : undefined;
      if (isModelStatus(status)) state = status.state;
    });
    return state;
  };
  expect(stateOf()).toBe("ready");
  cluster.store.get(BUCKET.profiles, "m", (entry) => {
    if (typeof entry !== "object" || !("value" in entry)) throw new Error("no status");
    const refused = { ...(fromJson(entry.value) as ModelStatus), state: "refused", reason: "by hand" };
    cluster.store.put(BUCKET.profiles, "m", toJson(refused), () => undefined);
  });
  cluster.startExecutor("executor-1", [gpuId(1)]);
  cluster.run(seconds(10));
  expect(stateOf()).toBe("refused");
});
