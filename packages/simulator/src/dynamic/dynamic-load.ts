/**
 * Dynamic models of a scenario: their applications with the lengths of their requests, and the time of a batch by its
 * longest member. All of it is data. docs/algorithms.md, B1 and B3.
 */
import { type BatchCosts, type Histogram, affineCosts, costsFromOne, histogramOf } from "@tutti/dynamic";
import { LatencyTable } from "@tutti/profile";
import { type Micros, Prng, assert } from "@tutti/units";
import type { CostRule } from "../scenario/costs.ts";
import { type Lengths, drawLength, meanLongest, mixtureQuantile } from "./lengths.ts";

export interface DynamicApp {
  readonly name: string;
  /** Share of the model's requests; shares sum to 1. */
  readonly share: number;
  /** Default: the model's SLO. */
  readonly slo?: Micros;
  /** Default: the model's. */
  readonly costs?: readonly CostRule[];
  readonly lengths: Lengths;
  /** Distribution of times alone that a scheduler knows in the beginning. */
  readonly alone: Histogram;
}

/** l_B = c0 + c1·k·l_max, in µs; `fromOne`: a batch of one takes as long as its request. */
export interface BatchCostForm {
  readonly c0: number;
  readonly c1: number;
  readonly fromOne: boolean;
}

export interface DynamicLoad {
  readonly apps: readonly DynamicApp[];
  readonly costs: BatchCostForm;
  /** Supported batch sizes, ascending. A policy that doesn't use them may run other sizes up to the largest. */
  readonly sizes: readonly number[];
  /** "exact": requests carry the time that they take (`units` is `solo`). */
  readonly hints: "none" | "exact";
}

/** Number of requests that are profiled before the scenario begins. */
export const PROFILE_SAMPLES = 2000;
/** Seed of the profile, not the scenario's: every run of a workload begins with the same profile, whatever its seed. */
const PROFILE_SEED = 0x0f11e;

export const batchCostsOf = ({ c0, c1, fromOne }: BatchCostForm): BatchCosts =>
  fromOne ? costsFromOne(affineCosts(c0, c1)) : affineCosts(c0, c1);

/** Distribution of an application's requests, as measured on 2,000 requests alone. */
export function profiledHistogram(lengths: Lengths): Histogram {
  const prng = new Prng(PROFILE_SEED);
  return histogramOf(Array.from({ length: PROFILE_SAMPLES }, () => drawLength(lengths, prng)));
}

/** Run time of a batch whose longest member takes `longest` µs alone. */
export function dynamicRunTime({ costs: { c0, c1, fromOne } }: DynamicLoad, size: number, longest: number): Micros {
  const time = fromOne && size === 1 ? longest : c0 + c1 * size * longest;
  return Math.max(1, Math.round(time)) as Micros;
}

/** Time alone of the longest of these requests, in µs: the time of their batch depends on it. */
export function longestOf(requests: readonly { readonly solo: number }[]): number {
  let longest = 0;
  for (let i = 0; i < requests.length; i++) if (requests[i]!.solo > longest) longest = requests[i]!.solo;
  return longest;
}

/** Quantile of the times of the model's requests alone, in µs. */
export const soloQuantile = ({ apps }: Pick<DynamicLoad, "apps">, share: number): number =>
  mixtureQuantile(apps, share);

/**
 * Profile for planners that use one time per batch size: the mean time of batches of requests in order of arrival, c0 +
 * c1·k·E[longest of k].
 */
export function meanProfile(load: Omit<DynamicLoad, "hints">): LatencyTable {
  const largest = load.sizes.at(-1);
  assert(largest !== undefined, "a dynamic model has batch sizes");
  const longest = meanLongest(load.apps, largest);
  const points = Array.from(longest, (mean, i) => ({
    batchSize: i + 1,
    latency: dynamicRunTime({ ...load, hints: "none" }, i + 1, mean),
  }));
  return LatencyTable.fromPoints(points);
}

/**
 * Profile for planners that use a high percentile: the time that 99 % of the batches of each size don't exceed, as
 * production measures whole runs.
 */
export function percentileProfile(load: Omit<DynamicLoad, "hints">): LatencyTable {
  const points = Array.from({ length: load.sizes.at(-1)! }, (_, i) => {
    const longest = mixtureQuantile(load.apps, 0.99 ** (1 / (i + 1)));
    return { batchSize: i + 1, latency: dynamicRunTime({ ...load, hints: "none" }, i + 1, longest) };
  });
  return LatencyTable.fromPoints(points);
}
