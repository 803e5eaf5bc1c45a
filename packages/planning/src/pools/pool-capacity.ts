/**
 * The largest rate of a mix that a pool carries, where every accelerator runs every model: an estimate from profiles
 * and shares alone (docs/algorithms.md, D9). Two things limit it:
 *
 *   work     accelerators have no time for it in all but a hundredth of moments, swings of the load included;
 *   waiting  a model finds no accelerator within its slack: all of them run something that ends later.
 */
import type { LatencyTable } from "@tutti/profile";

/** Times in one unit, µs or ms; rates are in requests per that. */
export interface PooledModel {
  /** Requests of this model among those of all. Shares are relative to one another; 0: no requests. */
  readonly share: number;
  /** From arrival to the end of the run, delays of the network excluded. */
  readonly slo: number;
  /** Variance of the number of arrivals in a time, over its mean: 1 for Poisson, 10 for gaps of Gamma(0.1). */
  readonly dispersion: number;
  readonly profile: Pick<LatencyTable, "byBatchSize" | "batchSizeMax">;
}

/** Rates of all models together. */
export interface PoolCapacity {
  /** 0: a model can't meet its SLO even alone. */
  readonly carried: number;
  /** Index of the model that waits for too long beyond it; undefined where work is the limit. */
  readonly waits: number | undefined;
}

/** Share of a model's requests that may find no accelerator in time: the bad rate of A7. */
const WAIT_MAX = 0.01;
/** Standard deviations of a normal distribution above which a hundredth of it lies. */
const SWING = 2.326;
const BISECTIONS = 30;

/** @param count - of accelerators */
export function poolCapacity(models: readonly PooledModel[], count: number): PoolCapacity {
  const used = models.filter(({ share }) => share > 0);
  const total = used.reduce((sum, { share }) => sum + share, 0);
  const pool = used.map((model) => ({ ...model, share: model.share / total }));
  if (pool.length === 0 || count === 0) return { carried: 0, waits: undefined };
  const impossible = pool.findIndex((model) => slackOf(model) < 0);
  if (impossible >= 0) return { carried: 0, waits: models.indexOf(used[impossible]!) };

  const most = count / pool.reduce((sum, model) => sum + model.share * leastPerRequest(model), 0);
  const byWork = largest(most, (rate) => workOf(pool, runsOf(pool, rate, count)) <= count);
  // The model that can wait for the least time finds most of the runs too long.
  const hasty = pool.reduce((least, one, i) => (slackOf(one) < slackOf(pool[least]!) ? i : least), 0);
  const slack = slackOf(pool[hasty]!);
  const carried = largest(byWork, (rate) => waitingShare(runsOf(pool, rate, count), slack, count) <= WAIT_MAX);
  return { carried, waits: carried < byWork ? models.indexOf(used[hasty]!) : undefined };
}

/** Time for which a request that runs alone can wait; negative: none. */
export const slackOf = ({ slo, profile }: Omit<PooledModel, "share">): number => slo - profile.byBatchSize[1]!;

/** Batches of one model: their rate, that of their requests, and how long each runs. */
interface Runs {
  readonly rate: number;
  readonly requests: number;
  readonly time: number;
}

/**
 * Batches as deferral makes them: as large as the first request's deadline allows with requests that arrive evenly, and
 * with a wait of time / count for an accelerator (the staggered batches of A7).
 */
function runsOf(pool: readonly PooledModel[], rate: number, count: number): readonly Runs[] {
  return pool.map(({ share, slo, profile: { byBatchSize, batchSizeMax } }) => {
    const own = rate * share;
    const isInTime = (b: number): boolean => {
      const time = byBatchSize[b]!;
      return time + (b - 1) / own <= slo && time * (1 + 1 / count) <= slo;
    };
    let [size, over] = [1, batchSizeMax + 1];
    while (over - size > 1) {
      const middle = (size + over) >> 1;
      if (isInTime(middle)) size = middle;
      else over = middle;
    }
    return { rate: own / size, requests: own, time: byBatchSize[size]! };
  });
}

/** Accelerators that are needed in all but a hundredth of moments: the work of an SLO's time, as of a normal law. */
function workOf(pool: readonly PooledModel[], runs: readonly Runs[]): number {
  let [mean, variance] = [0, 0];
  for (const [i, run] of runs.entries()) {
    const { slo, dispersion } = pool[i]!;
    const work = run.rate * run.time;
    mean += work;
    variance += (dispersion * work * work) / (run.requests * slo);
  }
  return mean + SWING * Math.sqrt(variance);
}

/**
 * Share of requests of this slack that find no accelerator in time. One that runs something of length t at a random
 * moment ends it within the slack s but for a share (t − s)/t of the run; all of them are taken as independent.
 */
function waitingShare(runs: readonly Runs[], slack: number, count: number): number {
  const busy = runs.reduce((sum, run) => sum + run.rate * Math.max(0, run.time - slack), 0);
  return Math.min(1, busy / count) ** count;
}

const leastPerRequest = ({ profile: { byBatchSize, batchSizeMax } }: PooledModel): number => {
  let least = Infinity;
  for (let b = 1; b <= batchSizeMax; b++) least = Math.min(least, byBatchSize[b]! / b);
  return least;
};

/** The largest rate up to `most` at which it holds. */
function largest(most: number, holds: (rate: number) => boolean): number {
  if (holds(most)) return most;
  let [low, high] = [0, most];
  for (let i = 0; i < BISECTIONS; i++) {
    const middle = (low + high) / 2;
    if (holds(middle)) low = middle;
    else high = middle;
  }
  return low;
}
