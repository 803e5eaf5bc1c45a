/**
 * Isolated run times of requests, as whole clusters measure them in virtual time: docs/algorithms.md, B1, B3 and B9.
 */
import { quantileOf } from "@tutti/dynamic";
import { asHistogram } from "@tutti/profile";
import {
  BUCKET,
  type BucketRunTimes,
  type ModelRunTimes,
  type Role,
  StatsReported,
  isModelRunTimes,
  runTimesKeys,
  subjectsOf,
} from "@tutti/protocol";
import type { Engine } from "@tutti/ports/engine";
import { type Instant, Prng, micros, millis, seconds } from "@tutti/units";
import { FrameReader, fromJson, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

/**
 * Pace of the model. A request of n units takes 2 + n ms in isolation; a batch of k, 2 + (0.5 + 0.5·k) · its longest.
 */
const PACE = { fixedMs: 2, unitMs: 0.5, rowUnitMs: 0.5, max: 400, typical: 20 };
const aloneMs = (units: number): number => 2 + units;
const MODEL = { name: "loop", alphaMs: 10, betaMs: 12, sloMs: 400, batchSizeMax: 8, pace: PACE };

const bound = (engine: Engine): Engine => ({
  type: engine.type,
  load: (model, done) => engine.load(model, done),
  unload: (name, done) => engine.unload(name, done),
  stop: (done) => engine.stop(done),
  run: (batch, done) => engine.run(batch, done),
});

interface Stream {
  readonly app: string;
  /** Requests a second. */
  readonly rate: number;
  /** Units of each request, drawn between these. */
  readonly from: number;
  readonly to: number;
  readonly hints?: boolean;
}

function serving(options: VirtualClusterOptions = {}, model: Partial<typeof MODEL> = {}): VirtualCluster {
  const cluster = new VirtualCluster({ gpus: 2, timesWindow: seconds(20), ...options });
  cluster.addModel({ ...MODEL, ...model });
  cluster.run(seconds(2));
  return cluster;
}

/** Poisson arrivals of several applications for so many seconds, of units drawn evenly from each one's range. */
function send(cluster: VirtualCluster, streams: readonly Stream[], duration: number): Asked[] {
  const prng = new Prng(streams.length);
  const begin = cluster.clock.now();
  const next = streams.map(({ rate }) => prng.nextExponential(rate));
  const asked: Asked[] = [];
  for (;;) {
    const i = next.indexOf(Math.min(...next));
    if (next[i]! >= duration) break;
    const { app, rate, from, to, hints = false } = streams[i]!;
    cluster.clock.advanceTo(Math.round(begin + next[i]! * 1e6) as Instant);
    const value = from + (to - from) * prng.nextFloat();
    asked.push(cluster.ask(MODEL.name, { sloMs: MODEL.sloMs, app, value, ...(hints && { units: value }) }));
    next[i]! += prng.nextExponential(rate);
  }
  cluster.clock.advanceTo((begin + duration * 1e6) as Instant);
  return asked;
}

/** The share of requests that were answered in time; each was answered once (T1). */
function inTime(asked: readonly Asked[]): number {
  expect(asked.filter(({ outcomes }) => outcomes.length !== 1)).toEqual([]);
  return (
    asked.filter(({ outcomes, deadline }) => outcomes[0]!.status === "ok" && outcomes[0]!.at <= deadline).length /
    asked.length
  );
}

function stored(cluster: VirtualCluster): ModelRunTimes | undefined {
  let value: unknown;
  cluster.store.get(BUCKET.profiles, runTimesKeys.model(1), (entry) => {
    if (typeof entry === "object" && "value" in entry) value = fromJson(entry.value);
  });
  cluster.run(millis(10));
  if (value === undefined) return undefined;
  expect(isModelRunTimes(value)).toBe(true);
  return value as ModelRunTimes;
}
const timesOf = (cluster: VirtualCluster): BucketRunTimes => stored(cluster)!.buckets[0]!;

/** The last figures of each actor of a role, added up. */
function figuresOf(cluster: VirtualCluster, role: Role): () => Record<string, number> {
  const last = new Map<number, Readonly<Record<string, number>>>();
  const reader = new FrameReader().on(StatsReported, ({ key, figures }) => last.set(key, figures));
  cluster.network
    .connect({ name: "watcher" })
    .subscribe(subjectsOf("main").stats(role), ({ payload }) => void reader.read(payload));
  return () => {
    cluster.run(millis(1_100));
    const sums: Record<string, number> = {};
    for (const figures of last.values())
      for (const [name, value] of Object.entries(figures)) sums[name] = (sums[name] ?? 0) + value;
    return sums;
  };
}

const SHORT: Stream = { app: "short", rate: 30, from: 4, to: 8 };
const STEADY: Stream = { app: "steady", rate: 300, from: 1, to: 2 };
const LONG: Stream = { app: "long", rate: 10, from: 40, to: 60 };

test("two applications' distributions and shares come out of what they send", () => {
  const cluster = serving();
  send(cluster, [SHORT, LONG], 60);
  const { kind, apps } = timesOf(cluster);
  expect(kind).toBe("dynamic");
  expect(apps.map(({ name }) => name)).toEqual(["short", "long"]);
  expect(apps[0]!.share).toBeCloseTo(0.75, 1);
  for (const [i, { from, to }] of [SHORT, LONG].entries()) {
    const app = apps[i]!;
    expect(app.samples).toBeGreaterThanOrEqual(30);
    expect(app.mean / 1_000 / aloneMs((from + to) / 2)).toBeCloseTo(1, 1);
    expect(quantileOf(asHistogram(app), 0.001)).toBeGreaterThanOrEqual(1_000 * aloneMs(from) - 1);
    expect(quantileOf(asHistogram(app), 0.999)).toBeLessThanOrEqual(1_000 * aloneMs(to) + 1_000);
  }
});

test("what batches cost is found out, where the latency table says that batching costs nearly nothing", () => {
  const cluster = serving({}, { alphaMs: 0.5, betaMs: 21.5 });
  send(cluster, [SHORT, LONG], 60);
  const { costs, costSamples } = timesOf(cluster);
  expect(costSamples).toBeGreaterThanOrEqual(8);
  expect(costs[0]).toEqual({ batchSize: 1, fixed: 0, slope: 1 });
  const { fixed, slope } = costs.find(({ batchSize }) => batchSize === 4)!;
  const [units, took] = [50, 2 + (0.5 + 0.5 * 4) * 50];
  expect((fixed + slope * 1_000 * aloneMs(units)) / 1_000 / took).toBeGreaterThan(0.8);
  expect((fixed + slope * 1_000 * aloneMs(units)) / 1_000 / took).toBeLessThan(1.25);
});

test("known by their distributions, requests are in time that were late while only a mean was known", () => {
  const cluster = serving();
  const before = send(cluster, [SHORT, LONG], 8);
  cluster.run(seconds(1));
  expect(stored(cluster)?.buckets[0]!.kind).not.toBe("dynamic");
  send(cluster, [SHORT, LONG], 20);
  expect(timesOf(cluster).kind).toBe("dynamic");
  const after = send(cluster, [SHORT, LONG], 20);
  cluster.run(seconds(1));
  expect(inTime(before)).toBeLessThan(0.92);
  expect(inTime(after)).toBeGreaterThan(0.99);
});

test("with size hints one application's times are told apart by them", () => {
  const cluster = serving({ timesWindow: seconds(60) });
  send(cluster, [{ app: "all", rate: 30, from: 4, to: 60, hints: true }], 60);
  const { byUnits } = timesOf(cluster).apps[0]!;
  expect(byUnits!.length).toBeGreaterThanOrEqual(2);
  let least = 4;
  for (const one of byUnits!) {
    expect(quantileOf(asHistogram(one), 0.01)).toBeGreaterThanOrEqual(1_000 * aloneMs(least) - 1_000);
    expect(quantileOf(asHistogram(one), 0.99)).toBeLessThanOrEqual(1_000 * aloneMs(one.upTo) + 1_000);
    least = one.upTo;
  }
});

test("a distribution that moves is followed within two windows", () => {
  const cluster = serving();
  send(cluster, [{ ...SHORT, from: 10, to: 20 }], 45);
  expect(timesOf(cluster).apps[0]!.p50).toBeLessThan(23_000);
  send(cluster, [{ ...SHORT, rate: 15, from: 60, to: 70 }], 50);
  const [app] = timesOf(cluster).apps;
  expect(quantileOf(asHistogram(app!), 0.05)).toBeGreaterThan(60_000);
  expect(app!.mean / 1_000 / aloneMs(65)).toBeCloseTo(1, 1);
});

test("runs of our own take at most a twentieth of the time and delay none by more than one run; how much is told", () => {
  const cluster = serving({ gpus: 1 });
  const executors = figuresOf(cluster, "executor");
  const rankers = figuresOf(cluster, "ranker");
  send(cluster, [SHORT, { ...LONG, rate: 4 }], 60);
  const [executor, ranker] = [executors(), rankers()];
  expect(executor["aloneRuns"]).toBeGreaterThan(20);
  expect(executor["aloneUs"]).toBeLessThan(0.06 * 62e6);
  const longest = 1_000 * aloneMs(LONG.to) * 1.3;
  expect(Math.max(executor["aloneDelayUsMost"]!, ranker["idleDelayUsMost"]!)).toBeLessThan(longest);
  expect(ranker["idleGiven"]).toBeGreaterThanOrEqual(executor["aloneRuns"]!);
});

test.for([1, 4])(
  "no run of our own takes the accelerator that a batch which still grows will need: %i of them, and nothing is refused",
  (gpus) => {
    const cluster = new VirtualCluster({ gpus });
    cluster.addModel({ name: "heavy", alphaMs: 0.21, betaMs: 14.2, sloMs: 40 });
    cluster.run(seconds(2));
    const executors = figuresOf(cluster, "executor");
    const asked = Array.from({ length: 400 }, () => {
      const one = cluster.ask("heavy", { sloMs: 40 });
      cluster.run(millis(5));
      return one;
    });
    cluster.run(millis(100));
    expect(inTime(asked)).toBe(1);
    // There is no idle time that long between batches; afterwards there is.
    cluster.run(seconds(2));
    expect(executors()["aloneRuns"]).toBeGreaterThan(0);
  },
);

test("of a model whose times hardly vary little is run again, and it is planned with its latency table", () => {
  const cluster = serving();
  send(cluster, [{ ...SHORT, from: 20, to: 22 }], 30);
  expect(timesOf(cluster).kind).toBe("static");
  const executors = figuresOf(cluster, "executor");
  const before = executors()["aloneRuns"]!;
  send(cluster, [{ ...SHORT, from: 20, to: 22 }], 60);
  expect(executors()["aloneRuns"]! - before).toBeLessThanOrEqual(6);
});

test("a machine that delays one run in ten makes no model dynamic: requests that run alone twice show that it isn't their inputs", () => {
  const prng = new Prng(5);
  const delayed = { runTimes: () => (prng.nextFloat() < 0.1 ? 1.6 : 1) };
  const evenly = { timesWindow: seconds(60), ...delayed };
  const steady = new VirtualCluster({ gpus: 2, ...evenly });
  steady.addModel({ name: MODEL.name, alphaMs: 1, betaMs: 6, sloMs: 60 });
  steady.run(seconds(2));
  send(steady, [{ app: "steady", rate: 200, from: 1, to: 2 }], 30);
  expect(timesOf(steady).kind).toBe("static");
  expect(timesOf(steady).apps[0]!.samples).toBeGreaterThanOrEqual(30);

  const varying = serving(evenly);
  send(varying, [SHORT, LONG], 40);
  expect(timesOf(varying).kind).toBe("dynamic");
});

test("a model that takes 1 ms on one type of accelerators and 8 ms on the other is static, also for a profiler that starts again", () => {
  const wrapEngine = (engine: Engine, gpu: number): Engine => {
    const factor = gpu === 0 ? 8 : 1;
    return {
      ...bound(engine),
      type: factor === 1 ? "fast" : "slow",
      latencyOf: (_, __, batchSize) => micros(factor * (800 + 200 * batchSize)),
      run: (batch, done) =>
        engine.run(batch, (outcome) => {
          if (outcome.kind === "failed" || factor === 1) return done(outcome);
          cluster.later(micros((factor - 1) * outcome.run), () =>
            done({ ...outcome, run: micros(factor * outcome.run) }),
          );
        }),
    };
  };
  const cluster = new VirtualCluster({ gpus: 2, executors: 2, timesWindow: seconds(20), wrapEngine });
  cluster.addModel({ name: MODEL.name, alphaMs: 0.2, betaMs: 0.8, sloMs: 60, isUnmeasured: true });
  cluster.run(seconds(4));
  /** Two of three requests can only be served on the fast type; the others wait for 30 ms, and run on the slow one. */
  const prng = new Prng(3);
  const ask = (requests: number): void => {
    for (let i = 0; i < requests; i++) {
      cluster.ask(MODEL.name, { sloMs: prng.nextFloat() < 0.35 ? 60 : 7 });
      cluster.run(micros(Math.round(prng.nextExponential(30) * 1e6)));
    }
  };
  ask(500);
  const { kind, apps, pool } = timesOf(cluster);
  expect(kind).toBe("static");
  expect(pool!.samples).toBeGreaterThanOrEqual(30);
  expect(quantileOf(asHistogram(apps[0]!), 0.1)).toBeLessThan(1_500); // both types were sampled
  expect(quantileOf(asHistogram(apps[0]!), 0.9)).toBeGreaterThan(7_500);
  cluster.kill("profiler");
  cluster.startProfiler("profiler-2");
  cluster.run(seconds(1));
  ask(300);
  expect(timesOf(cluster).kind).toBe("static");
});

test("a profiler that starts again goes on from what is stored", () => {
  const cluster = serving();
  send(cluster, [SHORT, LONG], 40);
  const before = timesOf(cluster);
  cluster.kill("profiler");
  cluster.startProfiler("profiler-2");
  cluster.run(seconds(1));
  send(cluster, [SHORT, LONG], 10);
  const after = timesOf(cluster);
  expect(after.kind).toBe("dynamic");
  for (const [i, app] of after.apps.entries()) {
    expect(app.name).toBe(before.apps[i]!.name);
    expect(app.samples).toBeGreaterThanOrEqual(30);
    expect(app.mean / before.apps[i]!.mean).toBeCloseTo(1, 1);
  }
});

test("runs that take half as long again as given are told after two turns of the profiler, with their spread", () => {
  const prng = new Prng(8);
  const cluster = new VirtualCluster({ gpus: 1, runTimes: () => 1.4 + 0.2 * prng.nextFloat() });
  cluster.addModel({ name: MODEL.name, alphaMs: 1, betaMs: 4, sloMs: 40, batchSizeMax: 8 });
  cluster.run(seconds(2));
  expect(stored(cluster)).toBeUndefined();
  send(cluster, [STEADY], 11);
  const { sizes, at } = stored(cluster)!.learned!;
  expect(cluster.clock.now() - at).toBeLessThan(seconds(6));
  expect(sizes.map(({ batchSize }) => batchSize)).toEqual(expect.arrayContaining([1, 2, 4, 8]));
  expect(sizes.filter(({ spread }) => spread !== undefined).length).toBeGreaterThan(0);
  for (const { batchSize, given, learned, spread } of sizes) {
    expect(given).toBe(1_000 * batchSize + 4_000);
    expect(learned / given).toBeGreaterThan(1.45);
    expect(learned / given).toBeLessThan(1.55);
    const [p10 = 1.4, p50 = 1.5, p90 = 1.6] = [spread?.p10, spread?.p50, spread?.p90].map((us) => us && us / given);
    expect([p10 >= 1.4, p10 < 1.46, p50 > 1.45, p50 < 1.55, p90 > 1.54, p90 < 1.601]).toEqual(Array(6).fill(true));
  }
});

test("what is learned is written again when it moved or after a minute, and never while nothing runs", () => {
  let factor = 1.5;
  const cluster = new VirtualCluster({ gpus: 1, runTimes: () => factor });
  cluster.addModel({ name: MODEL.name, alphaMs: 1, betaMs: 4, sloMs: 40, batchSizeMax: 8 });
  cluster.run(seconds(2));
  const profilers = figuresOf(cluster, "profiler");
  const writesWhile = (what: () => void): number => {
    const before = profilers()["timesPublished"]!;
    what();
    return profilers()["timesPublished"]! - before;
  };
  send(cluster, [STEADY], 20);
  expect(writesWhile(() => send(cluster, [STEADY], 58))).toBeLessThanOrEqual(2);
  factor = 1.2;
  expect(writesWhile(() => send(cluster, [STEADY], 10))).toBeGreaterThanOrEqual(1);
  const first = stored(cluster)!.learned!.sizes[0]!;
  expect(first.learned / first.given).toBeCloseTo(1.2, 2);
  cluster.run(seconds(10));
  expect(writesWhile(() => cluster.run(seconds(120)))).toBe(0);
});

test("running times that can't be read change nothing: everybody serves as before (T8)", () => {
  const cluster = serving();
  send(cluster, [SHORT, LONG], 30);
  const good = stored(cluster)!;
  const [bucket] = good.buckets;
  for (const bad of [
    { ...good, buckets: [{ ...bucket, apps: [{ ...bucket!.apps[0], edges: [5, 4] }] }] },
    { ...good, buckets: [{ ...bucket, costs: [{ batchSize: 1, fixed: -1, slope: NaN }] }] },
    { ...good, number: 7 },
    "times",
    null,
  ]) {
    cluster.store.put(BUCKET.profiles, runTimesKeys.model(1), toJson(bad), () => undefined);
    cluster.run(micros(500));
  }
  cluster.store.put(BUCKET.profiles, runTimesKeys.model(1), Uint8Array.of(0xff, 0), () => undefined);
  const asked = send(cluster, [SHORT, LONG], 10);
  cluster.run(seconds(1));
  expect(inTime(asked)).toBeGreaterThan(0.97);
  // Without changes, the profiler publishes again after a minute.
  send(cluster, [SHORT, LONG], 60);
  expect(timesOf(cluster).kind).toBe("dynamic");
});

test("an executor that is stopped while it runs something of its own loses no request (T9)", () => {
  const cluster = serving({ gpus: 2, executors: 2 });
  send(cluster, [SHORT, LONG], 25);
  cluster.drain("executor-0");
  const asked = send(cluster, [SHORT], 5);
  cluster.run(seconds(1));
  expect(inTime(asked)).toBeGreaterThan(0.99);
});
