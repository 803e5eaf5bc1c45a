/**
 * The largest rate of a mix that a pool carries, where every accelerator runs every model that its type serves: an
 * estimate from profiles and shares alone (docs/algorithms.md, D9). Two things limit it:
 *
 *   work     accelerators have no time for it in all but a hundredth of moments, swings of the load included;
 *   waiting  a model finds no accelerator within its slack: all of them run something that ends later.
 */
import type { LatencyTable } from "@tutti/profile";
import { type AskedModel, PoolLoad } from "./pool-load.ts";

export type Profile = Pick<LatencyTable, "byBatchSize" | "batchSizeMax">;

/** Times in one unit, µs or ms; rates are in requests per that. */
export interface TypedPoolModel {
  /** Requests of this model among those of all. Shares are relative to one another; 0: no requests. */
  readonly share: number;
  /** From arrival to the end of the run, delays of the network excluded. */
  readonly slo: number;
  /** Variance of the number of arrivals in a time, over its mean: 1 for Poisson, 10 for gaps of Gamma(0.1). */
  readonly dispersion: number;
  /** By type; undefined: this type doesn't serve it. */
  readonly profiles: readonly (Profile | undefined)[];
}

/** Rates of all models together. */
export interface PoolCapacity {
  /** 0: a model can't meet its SLO even alone. */
  readonly carried: number;
  /** Index of a model that waits for too long beyond it; undefined where work is the limit. */
  readonly waits: number | undefined;
}

/** Each rate that is tried is so much of the one before, down to 0.0003 of the largest. */
const PROBE = 0.95;
const PROBES = 160;
const BISECTIONS = 13;

/** Cost of `typedCapacity` for so many types, as a multiple of that for one. */
export const capacitiesFor = (types: number): number => 3 * types - 2;

/** @param counts - of accelerators, by type */
export function typedCapacity(models: readonly TypedPoolModel[], counts: readonly number[]): PoolCapacity {
  const asked = askedOf(models, counts);
  if (asked.length === 0 || counts.every((count) => count === 0)) return { carried: 0, waits: undefined };
  const unserved = asked.find(({ serving }) => serving.length === 0);
  if (unserved !== undefined) return { carried: 0, waits: unserved.index };
  const pool = new PoolLoad(asked, counts);
  const isCarried = (rate: number): boolean => pool.isDoneAt(rate) && pool.waiting() === undefined;
  let [carried, over] = [0, pool.most];
  // Not by halves from the start: as batches grow with the rate, what is too much may not be above it.
  for (let probe = 0, rate = over; carried === 0 && probe < PROBES; probe++, rate *= PROBE)
    if (isCarried(rate)) carried = rate;
    else over = rate;
  for (let i = 0; i < BISECTIONS && carried < over; i++) {
    const middle = (carried + over) / 2;
    if (isCarried(middle)) carried = middle;
    else over = middle;
  }
  const waits = carried < over && pool.isDoneAt(over) ? pool.waiting()?.index : undefined;
  return { carried, waits };
}

function askedOf(models: readonly TypedPoolModel[], counts: readonly number[]): readonly AskedModel[] {
  const total = models.reduce((sum, { share }) => sum + share, 0);
  return models.flatMap((model, index): AskedModel[] => {
    const { share, slo, profiles } = model;
    if (share === 0) return [];
    const slackOn = (type: number): number => slo - (profiles[type]?.byBatchSize[1] ?? Infinity);
    const serving = [...counts.keys()].filter((type) => counts[type]! > 0 && slackOn(type) >= 0);
    return [{ ...model, share: share / total, index, serving, slack: Math.min(...serving.map(slackOn)) }];
  });
}
