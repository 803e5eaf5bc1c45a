/**
 * Number of executors that measured rates need (docs/algorithms.md, A7 and A8): the average work, and room for its
 * swings.
 *
 * Work W = Σ rate · (executor time per request). Requests come at random, and one can wait for at most its SLO. The
 * work that arrives within that time has a variance, and room of z standard deviations keeps late requests rare:
 *
 *   executors = W + z·√(Σ rate · work² · dispersion / SLO)
 *
 * So small clusters get much room for their size and large ones little, as in square-root staffing (Halfin and Whitt
 * 1981). Dispersion is variance over mean of the counts: 1 for Poisson arrivals. Times in ms, rates in requests per ms.
 */
import { assert } from "@tutti/units";

export interface Demand {
  readonly rate: number;
  /** Executor time per request. */
  readonly work: number;
  readonly slo: number;
  /** Default: 1. */
  readonly dispersion?: number;
}

/** z: one setting for every workload; packages/planning/README.md lists the values that were tried. */
export const ROOM = 1;

export interface Need {
  /** Executors that are busy on average. */
  readonly work: number;
  /** Further executors for the swings of the work. */
  readonly room: number;
}

export function needOf(demands: readonly Demand[], room = ROOM): Need {
  let work = 0;
  let variance = 0;
  for (const { rate, work: each, slo, dispersion = 1 } of demands) {
    assert(rate >= 0 && each >= 0 && slo > 0, `${rate} requests per ms of ${each} ms within ${slo} ms`);
    work += rate * each;
    variance += (rate * each * each * dispersion) / slo;
  }
  return { work, room: room * Math.sqrt(variance) };
}

/** Median of a chi-square variable with one degree of freedom. */
const MEDIAN_OF_SQUARE = 0.4549;

/**
 * Variance over mean of counts in equal times, at least 1. It uses the median of squared differences of neighbours, so
 * that neither a trend nor a step counts as swings.
 */
export function dispersionOf(counts: readonly number[]): number {
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  if (counts.length < 3 || mean === 0) return 1;
  const squares = counts.slice(1).map((count, i) => (count - counts[i]!) ** 2);
  squares.sort((a, b) => a - b);
  const middle = squares.length / 2;
  const median = Number.isInteger(middle)
    ? (squares[middle - 1]! + squares[middle]!) / 2
    : squares[Math.floor(middle)]!;
  return Math.max(1, median / (2 * MEDIAN_OF_SQUARE * mean));
}
