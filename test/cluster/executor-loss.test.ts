/**
 * Executors that die in mid-run, hang, lack a model, leave and come back (docs/architecture.md, 4), to the microsecond.
 */
import type { LastRun } from "@tutti/executor";
import type { EmulatedFault, Engine } from "@tutti/ports/engine";
import { BUCKET, BatchRefused, type ModelFaults, type ModelStatus, faultKeys, subjectsOf } from "@tutti/protocol";
import { type GpuId, type Instant, actorKey, after, gpuId, millis, seconds } from "@tutti/units";
import { FrameReader, fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

interface Started {
  readonly gpu: number;
  readonly model: string;
  readonly at: Instant;
}
/** Records every batch as it starts, and makes chosen ones hang. */
class Watched {
  readonly started: Started[] = [];
  hangs: (model: string, gpu: number) => boolean = () => false;
  readonly cluster: VirtualCluster;

  constructor(options: VirtualClusterOptions = {}) {
    this.cluster = new VirtualCluster({
      policy: { kind: "eager" },
      ...options,
      fault: (gpu, _, { model }): EmulatedFault | undefined => {
        this.started.push({ gpu, model, at: this.cluster.clock.now() });
        return this.hangs(model, gpu) ? { kind: "hang" } : undefined;
      },
    });
  }
  /** Forgets the batches so far. */
  forget(): void {
    this.started.length = 0;
  }
  runUntilStarted(count: number): Started {
    expect(this.cluster.runUntil(() => this.started.length >= count)).toBe(true);
    return this.started[count - 1]!;
  }
}

/** l(b) = 90 + 10·b ms: long enough to be killed in mid-run. */
const SLOW = { name: "slow", alphaMs: 10, betaMs: 90, sloMs: 500 };
const FAST = { name: "fast", alphaMs: 1, betaMs: 4, sloMs: 50 };

const statuses = (asked: readonly Asked[]): string[] => asked.map((one) => one.outcomes.map((o) => o.status).join());
const notOk = (asked: readonly Asked[]): string[] => statuses(asked).filter((status) => status !== "ok");

function entry<T>(cluster: VirtualCluster, key: string): T | undefined {
  let found: T | undefined;
  cluster.store.get(BUCKET.profiles, key, (result) => {
    if (result !== "absent" && !("failure" in result)) found = fromJson(result.value) as T;
  });
  cluster.run(millis(1));
  return found;
}
const faultsOf = (cluster: VirtualCluster, number: number): ModelFaults | undefined =>
  entry(cluster, faultKeys.model(number));

test("the batch of a killed executor is pulled a second time and runs elsewhere within 50 ms of the kill (T1)", () => {
  const watched = new Watched({ gpus: 2, executors: 2 });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  watched.forget();
  const asked = [1, 2, 3].map((value) => cluster.ask("slow", { sloMs: 500, value: value * 7 }));
  const first = watched.runUntilStarted(1);
  cluster.run(millis(20));
  const killedAt = cluster.clock.now();
  cluster.kill(`executor-${first.gpu}`);
  const second = watched.runUntilStarted(2);
  expect(second.gpu).not.toBe(first.gpu);
  expect(second.at - killedAt).toBeLessThanOrEqual(millis(50));
  cluster.run(millis(600));
  expect(asked.map(({ outcomes }) => outcomes.map(({ status, value }) => [status, value]))).toEqual(
    [7, 14, 21].map((value) => [["ok", value]]),
  );
});

test("what a killed executor leaves no time for is refused as soon as that is known, long before the deadline", () => {
  const watched = new Watched({ gpus: 2, executors: 2 });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  watched.forget();
  const asked = cluster.ask("slow", { sloMs: 180 });
  const { gpu } = watched.runUntilStarted(1);
  cluster.run(millis(85));
  const killedAt = cluster.clock.now();
  cluster.kill(`executor-${gpu}`);
  cluster.run(millis(300));
  expect(statuses([asked])).toEqual(["TUTTI_DEADLINE_INFEASIBLE"]);
  expect(asked.outcomes[0]!.at - killedAt).toBeLessThanOrEqual(millis(50));
  expect(asked.deadline - asked.outcomes[0]!.at).toBeGreaterThan(millis(40));
});

test("a run that hangs ends its executor at its deadline, and its batch runs elsewhere a millisecond later", () => {
  const watched = new Watched({ gpus: 2, executors: 2, restartAfter: millis(100) });
  const { cluster } = watched;
  cluster.addModel({ ...SLOW, runDeadlineMs: 200 });
  cluster.run(seconds(2));
  watched.forget();
  watched.hangs = () => watched.started.length === 1;
  const asked = cluster.ask("slow", { sloMs: 500 });
  const first = watched.runUntilStarted(1);
  const second = watched.runUntilStarted(2);
  expect(second.at - first.at).toBeGreaterThanOrEqual(millis(200));
  expect(second.at - first.at).toBeLessThan(millis(202));
  cluster.run(seconds(1));
  expect([statuses([asked]), second.gpu === first.gpu]).toEqual([["ok"], false]);
  watched.hangs = () => false;
  // The executor is back, and both serve.
  watched.forget();
  const both = [cluster.ask("slow", { sloMs: 150 })];
  cluster.run(millis(10));
  both.push(cluster.ask("slow", { sloMs: 150 }));
  cluster.run(millis(400));
  expect(notOk(both)).toEqual([]);
  expect(new Set(watched.started.map(({ gpu }) => gpu)).size).toBe(2);
});

test("an accelerator that hangs is granted no more, also while its run has not passed its deadline", () => {
  const watched = new Watched({ gpus: 2, executors: 2 });
  const { cluster } = watched;
  cluster.addModel({ ...FAST, runDeadlineMs: 60_000 });
  cluster.run(seconds(2));
  watched.hangs = (_, gpu) => gpu === 0;
  const asked = cluster.load("fast", { rate: 60, duration: seconds(3), sloMs: 50 });
  cluster.run(millis(200));
  // The accelerator looks free once whenever it is overdue for twice as long.
  expect(notOk(asked).length).toBeLessThan(8);
  const late = asked.slice(-60);
  expect(notOk(late)).toEqual([]);
});

test("a model that hangs in three runs in a row is quarantined everywhere: refused at once with the reason, while others go on", () => {
  const watched = new Watched({ gpus: 4, executors: 4, batchers: 2, restartAfter: millis(150) });
  const { cluster } = watched;
  cluster.addModel({ ...SLOW, name: "bad", runDeadlineMs: 150 });
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  watched.hangs = (model) => model === "bad";
  const bad = cluster.ask("bad", { sloMs: 5_000 });
  const good = cluster.load("fast", { rate: 200, duration: seconds(2), sloMs: 50 });
  cluster.run(millis(100));
  // Only requests fail that were accepted behind a run not yet known to hang.
  expect(notOk(good).length).toBeLessThan(0.02 * good.length);
  expect(statuses([bad])).toEqual(["TUTTI_NOT_READY"]);
  expect(bad.outcomes[0]!.text).toMatch(/"bad" is quarantined: it ended its executor 3 times in a row .*hung in a run/);
  // Three times its run deadline, and the time to notice, to write and to hear of it.
  expect(bad.outcomes[0]!.at - bad.at).toBeLessThan(millis(3 * 150 + 30));
  expect(faultsOf(cluster, 1)?.strikes.map(({ how }) => how)).toEqual(["hung", "hung", "hung"]);
  const refused = cluster.ask("bad", { sloMs: 5_000 });
  cluster.run(millis(1));
  expect(statuses([refused])).toEqual(["TUTTI_NOT_READY"]);
  // The executors are back, and none runs the model.
  watched.forget();
  const after = cluster.load("fast", { rate: 400, duration: seconds(1), sloMs: 50 });
  cluster.run(millis(100));
  expect(notOk(after)).toEqual([]);
  expect(watched.started.filter(({ model }) => model === "bad")).toEqual([]);
  // Once released, the model is served again.
  watched.hangs = () => false;
  cluster.store.delete(BUCKET.profiles, faultKeys.model(1), () => undefined);
  cluster.run(seconds(1));
  const again = cluster.ask("bad", { sloMs: 500 });
  cluster.run(millis(400));
  expect(statuses([again])).toEqual(["ok"]);
});

test("what a living executor has of a model that is quarantined meanwhile is refused as soon as that one hangs as well", () => {
  const watched = new Watched({ gpus: 4, executors: 4, batchers: 2, restartAfter: seconds(3) });
  const { cluster } = watched;
  cluster.addModel({ ...SLOW, name: "bad", runDeadlineMs: 150 });
  cluster.run(seconds(2));
  watched.forget();
  watched.hangs = () => true;
  // The first one's second try begins after 150 ms, and is under way when the third fault is recorded.
  const asked = [0, 70, 5].map((ms) => {
    cluster.run(millis(ms));
    return cluster.ask("bad", { sloMs: 5_000 });
  });
  const { at: fourthAt } = watched.runUntilStarted(4);
  cluster.run(millis(100));
  expect(faultsOf(cluster, 1)?.quarantined).not.toBe("");
  expect(statuses(asked)).toEqual(["", "TUTTI_NOT_READY", "TUTTI_NOT_READY"]);
  cluster.run(millis(100));
  expect(statuses(asked)).toEqual(["TUTTI_NOT_READY", "TUTTI_NOT_READY", "TUTTI_NOT_READY"]);
  const { at, text } = asked[0]!.outcomes[0]!;
  expect(text).toMatch(/"bad" is quarantined/);
  expect(at - fourthAt).toBeGreaterThanOrEqual(millis(150));
  expect(at - fourthAt).toBeLessThan(millis(160));
});

test("what an executor has of a model that is unloaded meanwhile is refused as soon as that one dies", () => {
  const watched = new Watched({ gpus: 2, executors: 2 });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  watched.forget();
  const asked = cluster.ask("slow", { sloMs: 5_000 });
  const { gpu } = watched.runUntilStarted(1);
  cluster.run(millis(10));
  cluster.store.delete(BUCKET.models, "slow", () => undefined);
  cluster.run(millis(20));
  expect(statuses([asked])).toEqual([""]);
  const killedAt = cluster.clock.now();
  cluster.kill(`executor-${gpu}`);
  cluster.run(millis(100));
  expect(asked.outcomes).toMatchObject([{ status: "TUTTI_NOT_FOUND", text: '"slow" was unloaded' }]);
  expect(asked.outcomes[0]!.at - killedAt).toBeLessThan(millis(50));
});

test("executors that crash in silence are told of by those that take their place, and a success in between breaks the row", () => {
  const watched = new Watched({ gpus: 2, executors: 2 });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  const crash = (how: LastRun["how"] = "crashed"): void => {
    const asked = cluster.ask("slow", { sloMs: 115 }); // no time for a second try
    watched.forget();
    const { gpu } = watched.runUntilStarted(1);
    const startedAt = cluster.clock.now();
    cluster.run(millis(10));
    const executor = cluster.running.get(`executor-${gpu}`)!.actor.key;
    cluster.kill(`executor-${gpu}`);
    cluster.run(millis(200));
    expect(statuses([asked])).toEqual(["TUTTI_DEADLINE_INFEASIBLE"]);
    const model = { name: "slow", number: 1 };
    const last: LastRun = { model, executor, gpu: gpuId(gpu), doing: "run", how, startedAt, forget: () => undefined };
    cluster.startExecutor(`executor-${gpu}`, [gpuId(gpu)], [last]);
    cluster.run(millis(500));
  };
  crash();
  crash();
  expect(faultsOf(cluster, 1)?.strikes).toHaveLength(2);
  const served = cluster.ask("slow", { sloMs: 400 });
  cluster.run(millis(500));
  expect([statuses([served]), faultsOf(cluster, 1)?.strikes]).toEqual([["ok"], []]);
  crash();
  crash("killed");
  expect(faultsOf(cluster, 1)?.quarantined).toBe("");
  crash("killed");
  expect(faultsOf(cluster, 1)?.quarantined).toContain("3 times in a row");
});

test("a host that loses its power with all of its executors in mid-run is one event, and no model's fault", () => {
  const watched = new Watched({ gpus: 4, executors: 4 });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  const startedAt = cluster.clock.now();
  const gpus = [0, 1, 2, 3];
  const keys = gpus.map((gpu) => cluster.running.get(`executor-${gpu}`)!.actor.key);
  for (const gpu of gpus) cluster.kill(`executor-${gpu}`);
  cluster.run(millis(300));
  for (const gpu of gpus) {
    const model = { name: "slow", number: 1 };
    const what = { doing: "run", how: "killed", startedAt, forget: () => undefined } as const;
    cluster.startExecutor(`executor-${gpu}`, [gpuId(gpu)], [{ ...what, model, executor: keys[gpu]!, gpu: gpuId(gpu) }]);
  }
  cluster.run(seconds(1));
  expect(faultsOf(cluster, 1)).toMatchObject({ strikes: [{ how: "killed" }], quarantined: "" });
  const asked = cluster.ask("slow", { sloMs: 400 });
  cluster.run(millis(500));
  expect(statuses([asked])).toEqual(["ok"]);
});

test("draining executors one after the other under load refuses no batch and no request (T9)", () => {
  const refusals: number[] = [];
  const cluster = new VirtualCluster({ gpus: 4, executors: 4, batchers: 2 });
  for (const name of ["a", "b"]) cluster.addModel({ ...FAST, name });
  const reader = new FrameReader().on(BatchRefused, ({ reason }) => refusals.push(reason));
  const tap = cluster.network.connect({ name: "tap" });
  tap.subscribe(
    subjectsOf("main")
      .actor(actorKey(1))
      .replace(/[^.]+$/, "*"),
    ({ payload }) => void reader.read(payload),
  );
  cluster.run(seconds(2));
  const asked: Asked[] = [];
  for (let round = 0; round < 12; round++) {
    const name = `executor-${round % 4}`;
    for (const model of ["a", "b"]) asked.push(...cluster.load(model, { rate: 300, duration: millis(37), sloMs: 100 }));
    cluster.drain(name);
    for (const model of ["a", "b"])
      asked.push(...cluster.load(model, { rate: 300, duration: millis(200), sloMs: 100 }));
    cluster.startExecutor(name, [gpuId(round % 4)]);
  }
  cluster.run(millis(300));
  expect([notOk(asked), refusals]).toEqual([[], []]);
});

/** Makes loads of `model` fail on an accelerator while `fails` is true. */
function failingLoads(fails: (gpu: GpuId, model: string) => boolean): (engine: Engine, gpu: GpuId) => Engine {
  return (engine, gpu) => ({
    type: engine.type,
    load: (model, done) =>
      fails(gpu, model.spec.name)
        ? engine.load(model, () => done({ kind: "failed", reason: "out of device memory" }))
        : engine.load(model, done),
    unload: (name, done) => engine.unload(name, done),
    run: (batch, done) => engine.run(batch, done),
    stop: (done) => engine.stop(done),
  });
}

test("an executor that can't load a ready model is granted nothing until it can", () => {
  let broken = false;
  const wrapEngine = failingLoads((gpu, model) => broken && gpu === 0 && model === "slow");
  const watched = new Watched({ gpus: 2, executors: 2, wrapEngine });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  cluster.kill("executor-0");
  cluster.run(millis(200));
  broken = true;
  cluster.startExecutor("executor-0", [gpuId(0)]);
  cluster.run(millis(500));
  watched.forget();
  const asked = [
    ...cluster.load("fast", { rate: 50, duration: seconds(1), sloMs: 50 }),
    cluster.ask("slow", { sloMs: 500 }),
  ];
  cluster.run(millis(600));
  expect([notOk(asked), new Set(watched.started.map(({ gpu }) => gpu))]).toEqual([[], new Set([1])]);
  broken = false;
  cluster.run(seconds(5));
  watched.forget();
  const later = cluster.load("fast", { rate: 300, duration: seconds(1), sloMs: 50 });
  cluster.run(millis(200));
  expect([notOk(later), new Set(watched.started.map(({ gpu }) => gpu))]).toEqual([[], new Set([0, 1])]);
});

test("a ready model that no executor can load any more is failed, with the reason, and the others are served on", () => {
  let broken = false;
  const wrapEngine = failingLoads((_, model) => broken && model === "slow");
  const watched = new Watched({ gpus: 2, executors: 2, wrapEngine });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  broken = true;
  for (const gpu of [0, 1]) {
    cluster.kill(`executor-${gpu}`);
    cluster.run(millis(200));
    cluster.startExecutor(`executor-${gpu}`, [gpuId(gpu)]);
    cluster.run(millis(500));
  }
  cluster.run(seconds(2));
  expect(entry<ModelStatus>(cluster, "slow")).toMatchObject({ state: "failed", reason: "out of device memory" });
  const asked = [cluster.ask("slow"), ...cluster.load("fast", { rate: 100, duration: millis(500), sloMs: 50 })];
  cluster.run(millis(200));
  expect(statuses(asked.slice(0, 1))).toEqual(["TUTTI_NOT_READY"]);
  expect(notOk(asked.slice(1))).toEqual([]);
});

test("a failed model is served once an executor has loaded it that could not before, or that is new", () => {
  let broken: readonly number[] = [];
  const wrapEngine = failingLoads((gpu, model) => broken.includes(gpu) && model === "slow");
  const { cluster } = new Watched({ gpus: 2, executors: 2, wrapEngine });
  cluster.addModel(SLOW);
  cluster.run(seconds(2));
  const restart = (gpu: number): void => {
    cluster.kill(`executor-${gpu}`);
    cluster.run(millis(200));
    cluster.startExecutor(`executor-${gpu}`, [gpuId(gpu)]);
    cluster.run(millis(500));
  };
  broken = [0, 1];
  restart(0);
  restart(1);
  cluster.run(seconds(2));
  const states = [entry<ModelStatus>(cluster, "slow")?.state];
  broken = [0];
  restart(1);
  cluster.run(seconds(3));
  states.push(entry<ModelStatus>(cluster, "slow")?.state);
  broken = [];
  restart(0);
  cluster.run(seconds(8));
  states.push(entry<ModelStatus>(cluster, "slow")?.state);
  const asked = cluster.load("slow", { rate: 10, duration: seconds(1), sloMs: 500 });
  cluster.run(seconds(1));
  expect([states, notOk(asked)]).toEqual([["failed", "failed", "ready"], []]);
});

test("a model whose trial run fails is tried once on an executor, and again on another", () => {
  const trials: number[] = [];
  const wrapEngine = (engine: Engine, gpu: GpuId): Engine => ({
    type: engine.type,
    load: (model, done) => engine.load(model, done),
    unload: (name, done) => engine.unload(name, done),
    run: (_, done) => {
      trials.push(gpu);
      done({ kind: "failed", reason: "a fault", fault: false });
    },
    stop: (done) => engine.stop(done),
  });
  const { cluster } = new Watched({ gpus: 2, executors: 1, wrapEngine });
  cluster.addModel({ ...SLOW, isUnmeasured: true });
  cluster.run(seconds(60));
  const before = trials.splice(0).length;
  cluster.startExecutor("executor-9", [gpuId(9)]);
  cluster.run(seconds(60));
  expect([before, trials.length]).toEqual([1, 1]);
});

test("a failed load is reported until the profiler has heard it, however many reports are lost", () => {
  let deaf = true;
  const watched = new Watched({
    gpus: 2,
    executors: 2,
    wrapEngine: failingLoads((_, model) => model === "slow"),
    loses: (subject) => deaf && subject === subjectsOf("main").role("profiler"),
  });
  const { cluster } = watched;
  cluster.addModel(SLOW);
  cluster.run(seconds(3));
  expect(entry<ModelStatus>(cluster, "slow")).toBeUndefined();
  deaf = false;
  cluster.run(millis(1_100));
  expect(entry<ModelStatus>(cluster, "slow")).toMatchObject({ state: "failed", reason: "out of device memory" });
});

test("an executor that starts cold runs every batch size once before it is granted anything", () => {
  const runs: { gpu: number; batchSize: number; at: Instant }[] = [];
  const wrapEngine = (engine: Engine, gpu: GpuId): Engine => ({
    type: engine.type,
    cold: true,
    load: (model, done) => engine.load(model, done),
    unload: (name, done) => engine.unload(name, done),
    run: (batch, done) => {
      runs.push({ gpu, batchSize: batch.batchSize, at: cluster.clock.now() });
      engine.run(batch, done);
    },
    stop: (done) => engine.stop(done),
  });
  const cluster: VirtualCluster = new VirtualCluster({ gpus: 2, executors: 2, wrapEngine });
  cluster.addModel({ ...FAST, batchSizeMax: 16 });
  cluster.run(seconds(2));
  cluster.kill("executor-0");
  cluster.run(millis(200));
  runs.length = 0;
  const startedAt = cluster.clock.now();
  cluster.startExecutor("executor-0", [gpuId(0)]);
  const asked = cluster.load("fast", { rate: 300, duration: seconds(1), sloMs: 50 });
  cluster.run(millis(200));
  expect(notOk(asked)).toEqual([]);
  const own = runs.filter(({ gpu }) => gpu === 0);
  expect(own.slice(0, 5).map(({ batchSize }) => batchSize)).toEqual([1, 2, 4, 8, 16]);
  const warmFor = 2 ** 5 - 1 + 5 * 4; // ms, of l(b) = b + 4
  expect(own[5]!.at).toBeGreaterThanOrEqual(after(startedAt, millis(warmFor)));
  expect(own.length).toBeGreaterThan(20);
});

test("a new model that hangs when it is loaded is quarantined at once, and is not loaded by those that come back", () => {
  const loads: string[] = [];
  const wrapEngine = (engine: Engine): Engine => ({
    type: engine.type,
    load: (model, done) => {
      loads.push(model.spec.name);
      if (model.spec.name !== "stone") engine.load(model, done);
    },
    unload: (name, done) => engine.unload(name, done),
    run: (batch, done) => engine.run(batch, done),
    stop: (done) => engine.stop(done),
  });
  const cluster = new VirtualCluster({ gpus: 4, executors: 4, wrapEngine, restartAfter: millis(200) });
  cluster.addModel(FAST);
  cluster.run(seconds(2));
  cluster.addModel({ ...FAST, name: "stone" });
  cluster.run(seconds(32)); // a load has 20.2 s
  expect(faultsOf(cluster, 2)).toMatchObject({ strikes: [{ doing: "load" }] });
  expect(faultsOf(cluster, 2)?.quarantined).toMatch(/one row takes too long .*loading stone has not ended within/);
  loads.length = 0;
  const asked = [cluster.ask("stone"), ...cluster.load("fast", { rate: 400, duration: seconds(1), sloMs: 50 })];
  cluster.run(millis(100));
  expect(statuses(asked.slice(0, 1))).toEqual(["TUTTI_NOT_READY"]);
  expect([notOk(asked.slice(1)), loads]).toEqual([[], []]);
});
