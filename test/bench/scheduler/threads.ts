/**
 * ModelThreads spread over threads, with one RankThread in the first: what docs/algorithms.md calls multicore
 * scalability (the paper's figure 13). Threads exchange records through rings in shared memory and wait for one another
 * only when they would get HOP turns apart.
 */
import { Worker } from "node:worker_threads";
import { type SharedRingMemory, RingReader, RingWriter, createRing } from "./shared-ring.ts";
import type { Result } from "./single.ts";
import { HOP, ModelHost, type ModelTally, RankHost, TURN } from "./turns.ts";
import { type Arrivals, SLO, type Shape, drawArrivals } from "./workload.ts";

export interface ThreadedOptions {
  readonly shape: Shape;
  readonly threads: number;
  readonly perMicro: number;
  readonly requests: number;
  readonly seed: number;
}

/** Orders for every thread. */
export interface ThreadPlan extends ThreadedOptions {
  readonly host: number;
  /** The host of each model. */
  readonly hostOf: Uint8Array;
  /** Rings by host. */
  readonly toRank: readonly SharedRingMemory[];
  readonly fromRank: readonly SharedRingMemory[];
  /** Turns done by each thread, then one word that starts them all. */
  readonly progress: SharedArrayBuffer;
  readonly turns: { readonly first: number; readonly count: number };
}

export interface ThreadReport {
  readonly tally: ModelTally;
  readonly digests: Map<number, number>;
  /** CPU of this thread, and how much of it went into waiting for others. */
  readonly cpuSeconds: number;
}

export interface ThreadedResult extends Result {
  readonly wallSeconds: number;
  readonly requestsPerSecond: number;
  /** CPU of the thread that worked longest, without the waits: what the wall clock would show on idle cores. */
  readonly longestThreadCpuSeconds: number;
  /** Equal for every number of threads: the decision log, hashed. */
  readonly decisions: string;
}

export async function measureThreaded(o: ThreadedOptions): Promise<ThreadedResult> {
  warmUp(o);
  const arrivals = drawArrivals(o.shape, o.perMicro, o.requests, o.seed);
  const plan = planFor(o, arrivals);
  const workers = Array.from({ length: o.threads - 1 }, (_, i) => startWorker({ ...plan, host: i + 1 }));
  await Promise.all(workers.map((worker) => worker.ready));
  const run = prepare(plan, arrivals);
  const cpuBefore = process.cpuUsage();
  const begin = performance.now();
  const words = new Int32Array(plan.progress);
  Atomics.store(words, o.threads, 1);
  Atomics.notify(words, o.threads);
  const own = run();
  const reports = [own, ...(await Promise.all(workers.map((worker) => worker.report)))];
  const wallSeconds = (performance.now() - begin) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  return summary(o, arrivals, reports, { wallSeconds, cpuSeconds: (user + system) / 1e6 });
}

const WARM_UP_REQUESTS = 150_000;

/** Every thread has its own compiled code: each runs a smaller load alone first, so that compiling isn't measured. */
export function warmUp(o: ThreadedOptions): void {
  const small = { ...o, threads: 1, requests: Math.min(o.requests, WARM_UP_REQUESTS), seed: o.seed + 1 };
  const arrivals = drawArrivals(small.shape, small.perMicro, small.requests, small.seed);
  prepare(planFor(small, arrivals), arrivals)();
}

/**
 * Prepares the turns of one host; the first also runs RankThread. All work that isn't scheduling happens before the
 * returned function runs.
 */
export function prepare(plan: ThreadPlan, arrivals: Arrivals): () => ThreadReport {
  const { host, threads, shape, hostOf } = plan;
  const models = Array.from(hostOf.keys()).filter((m) => hostOf[m] === host);
  const [toRank, fromRank] = [new RingWriter(plan.toRank[host]!), new RingReader(plan.fromRank[host]!)];
  const own = new ModelHost({ models, arrivals, toRank, fromRank, gpus: shape.gpus });
  const rank =
    host !== 0
      ? undefined
      : new RankHost({
          gpus: shape.gpus,
          hostOf,
          fromModels: plan.toRank.map((ring) => new RingReader(ring)),
          toModels: plan.fromRank.map((ring) => new RingWriter(ring)),
        });
  const progress = new Int32Array(plan.progress);
  // A model thread hears only the ranker; the ranker hears every thread.
  const heard = host === 0 ? Array.from({ length: threads - 1 }, (_, i) => i + 1) : [0];
  return () => {
    const before = process.threadCpuUsage();
    for (let turn = 0; turn < plan.turns.count; turn++) {
      for (const other of heard) waitFor(progress, other, turn - HOP + 1);
      rank?.runTurn(plan.turns.first + turn);
      own.runTurn(plan.turns.first + turn);
      Atomics.store(progress, host, turn + 1);
      Atomics.notify(progress, host);
    }
    const { user, system } = process.threadCpuUsage(before);
    return { tally: own.tally, digests: own.digests, cpuSeconds: (user + system) / 1e6 };
  };
}

const SPINS = 2_000;

/** Blocks until thread `other` has done `turns`: a short spin, then asleep, so that waiting costs next to no CPU. */
function waitFor(progress: Int32Array, other: number, turns: number): void {
  for (let spin = 0; ; spin++) {
    const done = Atomics.load(progress, other);
    if (done >= turns) return;
    if (spin >= SPINS) Atomics.wait(progress, other, done, 100);
  }
}

function planFor(o: ThreadedOptions, arrivals: Arrivals): ThreadPlan {
  const { threads, shape } = o;
  const hostOf = spread(shape.models, threads);
  // Most records in flight: the turns that two threads may be apart, twice, an offer and an answer of each model in
  // each.
  const room = 2 * (2 * HOP + 2) * (shape.models + 1);
  const rings = (): SharedRingMemory[] => Array.from({ length: threads }, () => createRing(room));
  const first = Math.floor(arrivals.at[0]! / TURN);
  const last = Math.ceil((arrivals.at[arrivals.at.length - 1]! + 2 * SLO) / TURN) + 4 * HOP;
  const progress = new SharedArrayBuffer(4 * (threads + 1));
  return { ...o, host: 0, hostOf, toRank: rings(), fromRank: rings(), progress, turns: { first, count: last - first } };
}

/** Measured share of the work that RankThread is: the first thread gets so many models less. */
const RANK_SHARE = 0.24;

function spread(models: number, threads: number): Uint8Array {
  const share = (1 + RANK_SHARE) / threads;
  const ofFirst = threads === 1 ? models : Math.max(0, Math.round(models * (share - RANK_SHARE)));
  return Uint8Array.from({ length: models }, (_, m) => {
    if (m < ofFirst) return 0;
    return threads === 1 ? 0 : 1 + Math.floor(((m - ofFirst) * (threads - 1)) / (models - ofFirst));
  });
}

function startWorker(plan: ThreadPlan): { ready: Promise<void>; report: Promise<ThreadReport> } {
  const worker = new Worker(new URL("./model-worker.ts", import.meta.url), { workerData: plan });
  const failed = new Promise<never>((_, reject) => worker.on("error", reject));
  const ready = new Promise<void>((resolve) => worker.once("message", () => resolve()));
  const report = ready.then(() => new Promise<ThreadReport>((resolve) => worker.once("message", resolve)));
  return { ready: Promise.race([ready, failed]), report: Promise.race([report, failed]) };
}

function summary(
  o: ThreadedOptions,
  arrivals: Arrivals,
  reports: readonly ThreadReport[],
  { wallSeconds, cpuSeconds }: { wallSeconds: number; cpuSeconds: number },
): ThreadedResult {
  const sum = (of: (tally: ModelTally) => number) => reports.reduce((total, { tally }) => total + of(tally), 0);
  const span = arrivals.at[o.requests - 1]! - arrivals.at[0]!;
  const served = sum((t) => t.served);
  const digests = new Map(reports.flatMap((report) => [...report.digests]));
  let decisions = 0n;
  for (let m = 0; m < o.shape.models; m++) {
    decisions = BigInt.asUintN(64, (decisions ^ BigInt(digests.get(m)! >>> 0)) * 0x100000001b3n);
  }
  return {
    ...o.shape,
    threads: o.threads,
    requests: o.requests,
    offeredPerSecond: Math.round((o.requests / span) * 1e6),
    servedShare: (served - sum((t) => t.late)) / o.requests,
    meanBatch: served / sum((t) => t.batches),
    busyShare: sum((t) => t.busyTime) / (o.shape.gpus * span),
    cpuSeconds,
    requestsPerCpuSecond: Math.round(o.requests / cpuSeconds),
    wallSeconds,
    requestsPerSecond: Math.round(o.requests / wallSeconds),
    longestThreadCpuSeconds: Math.max(...reports.map((report) => report.cpuSeconds)),
    decisions: decisions.toString(16).padStart(16, "0"),
  };
}
