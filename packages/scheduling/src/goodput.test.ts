/** docs/algorithms.md, A10, examples 8 and 9: what Poisson arrivals do to the bad rate, with five seeds or fewer. */
import { LatencyTable, perSecond as perSecondOf, scalingAdvice, staggeredBatch } from "@tutti/profile";
import {
  type ActorKey,
  type Instant,
  Prng,
  type RequestSeq,
  micros,
  millis,
  seconds,
  threadId,
  type Micros,
} from "@tutti/units";
import { expect, test } from "vitest";
import { Cluster, type ModelThreadConfig } from "./index.ts";

interface Load {
  seed: number;
  /** Requests per second, all models together. */
  perSecond: number;
  models?: number;
  gpus?: number;
  runFor?: Micros;
  profile?: LatencyTable;
  slo?: Micros;
  more?: Partial<ModelThreadConfig>;
}

interface Outcome {
  badRate: number;
  /** Executor-time, in executors. */
  busy: number;
  busyByGpu: number[];
  batchSizes: number[];
}

const resnet = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
const WARM_UP = seconds(1);

function simulate(load: Load): Outcome {
  const { seed, perSecond, models = 1, gpus = 8, runFor = seconds(20), profile = resnet, slo = millis(25) } = load;
  const zero = micros(0);
  let [bad, total] = [0, 0];
  const busyByGpu = new Array<number>(gpus).fill(0);
  const batchSizes: number[] = [];
  const cluster = new Cluster({
    gpus,
    models: Array.from({ length: models }, (_, m) => ({
      ...{
        thread: threadId(m, 0),
        term: 1,
        epoch: 1,
        profile,
        slo,
        policy: { kind: "deferred" as const },
        patience: 1,
      },
      ...{ gather: "target" as const, guard: zero, ctrl: zero, perItem: zero, respond: zero },
      ...{ queueMax: 10_000, batchesInFlightMax: 1000, ...load.more },
    })),
    listener: {
      refused: ({ arrivedAt }) => (bad += arrivedAt >= WARM_UP ? 1 : 0),
      finished: ({ requests, grant }, begin, end) => {
        for (const { deadline, arrivedAt } of requests) bad += end > deadline && arrivedAt >= WARM_UP ? 1 : 0;
        busyByGpu[grant.gpu]! += end - begin;
        batchSizes.push(requests.length);
      },
    },
  });
  const prng = new Prng(seed);
  let now = 0;
  for (let seq = 1; ; seq++) {
    now += prng.nextExponential(perSecond / 1e6);
    const arrivedAt = Math.round(now) as Instant;
    if (arrivedAt >= runFor) break;
    if (arrivedAt >= WARM_UP) total++;
    const model = models === 1 ? 0 : prng.nextInt(models);
    const deadline = (arrivedAt + slo) as Instant;
    cluster.arrive(model, {
      ingress: 1 as ActorKey,
      seq: seq as RequestSeq,
      deadline,
      arrivedAt,
      slo,
      app: 0,
      size: 0,
    });
  }
  cluster.runUntilIdle();
  const busy = busyByGpu.reduce((a, b) => a + b) / runFor;
  return { badRate: bad / total, busy, busyByGpu: busyByGpu.map((time) => time / runFor), batchSizes };
}

const target15 = { targetBatch: 15 };
const badPercents = (perSecond: number, more: Partial<ModelThreadConfig>) =>
  [1, 2, 3].map((seed) => 100 * simulate({ seed, perSecond, more }).badRate);

test.for([
  { perSecond: 5000, least: 0.05, most: 0.18 },
  { perSecond: 5200, least: 0.22, most: 0.52 },
  { perSecond: 5400, least: 0.7, most: 1.1 },
  { perSecond: 5600, least: 1.6, most: 2.2 },
  { perSecond: 8000, least: 27.7, most: 28.6 },
])("A10.8: the bad rate at $perSecond r/s lies between $least and $most percent", ({ perSecond, least, most }) => {
  for (const bad of badPercents(perSecond, target15)) {
    expect(bad).toBeGreaterThan(least);
    expect(bad).toBeLessThan(most);
  }
});

test("A10.8: with the target batch from the measured rate, goodput is still between 5,250 and 5,550 r/s", () => {
  expect(simulate({ seed: 1, perSecond: 5250 }).badRate).toBeLessThan(0.01);
  expect(simulate({ seed: 1, perSecond: 5550 }).badRate).toBeGreaterThan(0.01);
});

test("A10.8: head-of-queue gathering collapses under overload, hence the default", () => {
  const { badRate } = simulate({ seed: 1, perSecond: 8000, more: { gather: "head" } });
  expect(badRate).toBeGreaterThan(0.78);
  expect(badRate).toBeLessThan(0.88);
});

test("A10.8: at 3,000 r/s the highest accelerators idle and may be released; eager scheduling keeps all of them busy", () => {
  const deferred = simulate({ seed: 1, perSecond: 3000, more: target15 });
  expect(deferred.busy).toBeGreaterThan(4.14);
  expect(deferred.busy).toBeLessThan(4.34);
  expect(deferred.busyByGpu[7]).toBeLessThan(0.01);
  const idleShare = 1 - deferred.busy / 8;
  expect(scalingAdvice({ executors: 8, bad: 0, total: 1, idleShare })).toEqual({ kind: "release", executors: 3 });
  const eager = simulate({ seed: 1, perSecond: 3000, more: { ...target15, policy: { kind: "eager" } } });
  expect(eager.busy).toBeGreaterThan(7.7);
  expect(eager.batchSizes.toSorted((a, b) => a - b)[eager.batchSizes.length >> 1]).toBe(2);
});

/** The largest rate of bad rate ≤ 1 %, to 1 %: docs/algorithms.md, A7. */
function goodput(load: Omit<Load, "perSecond">, from: number, to: number): number {
  let [good, bad] = [from, to];
  while (bad / good > 1.01) {
    const middle = Math.sqrt(good * bad);
    if (simulate({ ...load, perSecond: middle }).badRate <= 0.01) good = middle;
    else bad = middle;
  }
  return good;
}

test.for([
  { beta: 1, ratio: 1.0 },
  { beta: 5, ratio: 0.97 },
  { beta: 10, ratio: 0.92 },
  { beta: 15, ratio: 0.88 },
])(
  "A10.9: eager scheduling reaches $ratio of the goodput of deferred scheduling at beta $beta ms",
  { timeout: 120_000 }, // 2 s of CPU; ten times that where the machine is busy otherwise, and more
  ({ beta, ratio }) => {
    const profile = LatencyTable.affine({ alpha: 1000, beta: 1000 * beta, batchSizeMax: 64 });
    const slo = (2 * profile.latency(8)) as Micros;
    const bound = perSecondOf(staggeredBatch({ profile, slo, executors: 32 }).perMicro);
    const goodputOf = (kind: "eager" | "deferred") => {
      const more = { gather: "head" as const, policy: { kind } };
      return goodput({ seed: 1, models: 10, gpus: 32, runFor: seconds(4), profile, slo, more }, 0.66 * bound, bound);
    };
    const [eager, deferred] = [goodputOf("eager"), goodputOf("deferred")];
    expect(eager / deferred).toBeGreaterThan(ratio - 0.03);
    expect(eager / deferred).toBeLessThan(ratio + 0.03);
  },
);
