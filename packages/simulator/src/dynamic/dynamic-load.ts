/**
 * What makes a model of a scenario dynamic: its applications with the lengths of their requests, and what a batch takes
 * of its longest member. All of it is data. docs/algorithms.md, B1 and B3.
 */
import { type BatchCosts, type Histogram, affineCosts, costsFromOne, histogramOf } from "@tutti/dynamic";
import { LatencyTable } from "@tutti/profile";
import { type Micros, Prng, assert } from "@tutti/units";
import { type Lengths, drawLength, meanLongest, mixtureQuantile } from "./lengths.ts";

export interface DynamicApp {
  readonly name: string;
  /** Of the model's requests; shares sum to 1. */
  readonly share: number;
  /** The model's where left out. */
  readonly slo?: Micros;
  readonly lengths: Lengths;
  /** What a scheduler knows of it in the beginning. */
  readonly alone: Histogram;
}

/** l_B = c0 + c1·k·l_max, in µs; `fromOne`: a batch of one takes what its request takes. */
export interface BatchCostForm {
  readonly c0: number;
  readonly c1: number;
  readonly fromOne: boolean;
}

export interface DynamicLoad {
  readonly apps: readonly DynamicApp[];
  readonly costs: BatchCostForm;
  /** Supported batch sizes, ascending. Who doesn't know of them may run others up to the largest. */
  readonly sizes: readonly number[];
  /** "exact": requests say how long they take (`units` is `solo`). */
  readonly hints: "none" | "exact";
}

/** As many requests are profiled before the scenario begins. */
export const PROFILE_SAMPLES = 2000;
/** Not the scenario's: every run of a workload begins with the same profile, whatever its seed. */
const PROFILE_SEED = 0x0f11e;

export const batchCostsOf = ({ c0, c1, fromOne }: BatchCostForm): BatchCosts =>
  fromOne ? costsFromOne(affineCosts(c0, c1)) : affineCosts(c0, c1);

/** What a scheduler that has measured 2,000 requests alone knows of their application. */
export function profiledHistogram(lengths: Lengths): Histogram {
  const prng = new Prng(PROFILE_SEED);
  return histogramOf(Array.from({ length: PROFILE_SAMPLES }, () => drawLength(lengths, prng)));
}

/** What a batch takes whose longest member takes `longest` µs alone. */
export function dynamicRunTime({ costs: { c0, c1, fromOne } }: DynamicLoad, size: number, longest: number): Micros {
  const time = fromOne && size === 1 ? longest : c0 + c1 * size * longest;
  return Math.max(1, Math.round(time)) as Micros;
}

/** How long a batch of these requests really runs. */
export function longestOf(requests: readonly { readonly solo: number }[]): number {
  let longest = 0;
  for (let i = 0; i < requests.length; i++) if (requests[i]!.solo > longest) longest = requests[i]!.solo;
  return longest;
}

/** Of the requests alone, in µs. */
export const soloQuantile = ({ apps }: Pick<DynamicLoad, "apps">, share: number): number =>
  mixtureQuantile(apps, share);

/** What planners by a number see: what batches of requests as they come take on average, c0 + c1·k·E[longest of k]. */
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
 * What planners by a high percentile see: the time that 99 % of the batches of each size don't exceed, as production
 * measures it of whole runs.
 */
export function percentileProfile(load: Omit<DynamicLoad, "hints">): LatencyTable {
  const points = Array.from({ length: load.sizes.at(-1)! }, (_, i) => {
    const longest = mixtureQuantile(load.apps, 0.99 ** (1 / (i + 1)));
    return { batchSize: i + 1, latency: dynamicRunTime({ ...load, hints: "none" }, i + 1, longest) };
  });
  return LatencyTable.fromPoints(points);
}
