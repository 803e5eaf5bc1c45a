/**
 * Latency of a batch of k with a request of application a, before its other members are known (Orloj §4.2 and 4.3;
 * docs/algorithms.md, B3).
 *
 *   LM1. F_{a,k} = F_a · F_mix^{k−1}: exact if the other k − 1 are drawn from the mixture. It never rises with k.
 *   LM2. est(a, k) doesn't fall with k.
 */
import { assert } from "@tutti/units";
import type { BatchCosts } from "./batch-costs.ts";
import { type Histogram, cdfOn, halved, meanOf, quantileOf, unionGrid } from "./histogram.ts";
import { LatencyCurve } from "./latency-curve.ts";

export interface AppLatency {
  /** Distribution of the running times of its requests alone. */
  readonly alone: Histogram;
  /** Its share of the arrivals; shares need not sum to 1. */
  readonly share: number;
}

export interface LatencyModelOptions {
  /** By application number. */
  readonly apps: readonly AppLatency[];
  /** S: supported batch sizes, ascending. */
  readonly sizes: readonly number[];
  readonly costs: BatchCosts;
  /** b_τ in 1/µs. */
  readonly chances: number;
  /** Estimates are this quantile instead of the mean. */
  readonly quantile?: number;
  /**
   * "joint": one member is known to be of application a (LM1). "mixture": the paper's literal F_mix^k; on bimodal loads
   * it loses up to 6 points of finish rate.
   */
  readonly members?: "joint" | "mixture";
  /** Most halvings of the bins for means; halving stops once the mean moves by less than 0.5 %. Default 4. */
  readonly halvingsMax?: number;
}

const MEAN_PRECISION = 0.005;

export class LatencyModel {
  readonly sizes: readonly number[];
  readonly apps: number;
  /** By application and place of the batch size. */
  readonly #curves: readonly (readonly LatencyCurve[])[];
  readonly #estimates: readonly Float64Array[];

  constructor(options: LatencyModelOptions) {
    const { apps, sizes, quantile, chances, costs } = options;
    assert(apps.length > 0 && sizes.length > 0, "a latency model has applications and batch sizes");
    assert(
      sizes.every((size, i) => Number.isInteger(size) && size > (sizes[i - 1] ?? 0)),
      "batch sizes ascend from 1",
    );
    this.sizes = sizes;
    this.apps = apps.length;
    const grids = [unionGrid(apps.map(({ alone }) => alone))];
    for (let i = 0; i < (options.halvingsMax ?? 4); i++) grids.push(halved(grids[i]!));
    const cdfs = grids.map((grid) => mixed(apps, grid));
    const batchOf = (app: number, size: number, level: number): Histogram => {
      const known = options.members === "mixture" ? cdfs[level]!.mix : cdfs[level]!.own[app]!;
      return mapped(grids[level]!, productOf(known, cdfs[level]!.mix, size - 1), costs(size));
    };
    this.#estimates = apps.map(() => new Float64Array(sizes.length));
    this.#curves = apps.map((_, app) =>
      sizes.map((size, k) => {
        const coarse = batchOf(app, size, 0);
        let finest = coarse;
        let mean = meanOf(coarse);
        for (let level = 1; level < grids.length; level++) {
          const before = mean;
          finest = batchOf(app, size, level);
          mean = meanOf(finest);
          if (Math.abs(mean - before) < MEAN_PRECISION * before) break;
        }
        const estimate = quantile === undefined ? mean : quantileOf(finest, quantile);
        this.#estimates[app]![k] = Math.max(estimate, this.#estimates[app]![k - 1] ?? 0); // LM2
        return new LatencyCurve(coarse, chances, mean);
      }),
    );
  }

  /** @param place - of the batch size in `sizes` */
  curve(app: number, place: number): LatencyCurve {
    return this.#curves[app]![place]!;
  }
  /** est(a, k) in µs. */
  estimate(app: number, place: number): number {
    return this.#estimates[app]![place]!;
  }
}

/** CDF of the maximum of one draw from `known` and `others` draws from `mix`, on one grid. */
export function productOf(known: Float64Array, mix: Float64Array, others: number): Float64Array {
  return known.map((value, i) => value * mix[i]! ** others);
}

/** Keeps the masses and maps the edges (equation 9 without its missing Jacobian). */
export function mapped(grid: Float64Array, cdf: Float64Array, { fixed, slope }: ReturnType<BatchCosts>): Histogram {
  const masses = new Float64Array(grid.length - 1);
  for (let j = 0; j < masses.length; j++) masses[j] = Math.max(0, cdf[j + 1]! - cdf[j]!);
  return { edges: grid.map((x) => fixed + slope * x), masses };
}

function mixed(apps: readonly AppLatency[], grid: Float64Array): { own: Float64Array[]; mix: Float64Array } {
  const total = apps.reduce((sum, { share }) => sum + share, 0);
  const own = apps.map(({ alone }) => cdfOn(alone, grid));
  const mix = new Float64Array(grid.length);
  for (const [a, cdf] of own.entries()) {
    const share = total > 0 ? apps[a]!.share / total : 1 / apps.length;
    for (let i = 0; i < mix.length; i++) mix[i]! += share * cdf[i]!;
  }
  mix[mix.length - 1] = 1;
  return { own, mix };
}
