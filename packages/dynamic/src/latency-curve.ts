/**
 * The score of a request in a queue, as a function of its slack (Orloj equations 1 and 2; docs/algorithms.md, B2 and
 * B5).
 *
 * A request that ends after its deadline D costs c, and its next chance comes after τ ~ Exp(b). So a start now saves
 * p(t) = (c/E[L]) ∫_{l ≤ D−t} f(l) e^{−b(D−t−l)} dl. Between milestones p is a line α·x + β in x = e^{b(t−t0)}: with
 * the slack s = D − t, bins above s are passed, at most one is straddled, and those below lie ahead.
 *
 *   CURVE-1. α and β of a phase are sums over bins in one order, computed once: there is no drift.
 */
import { assert } from "@tutti/units";
import { type Histogram, meanOf } from "./histogram.ts";

export class LatencyCurve {
  /** E[L] in µs. */
  readonly mean: number;
  /** Rate of chances per µs. */
  readonly chances: number;
  /** Bins of positive mass: [low, high). */
  readonly #low: Float64Array;
  readonly #high: Float64Array;
  /** h/(E[L]·b) of each bin: K for c = 1. */
  readonly #weight: Float64Array;
  /** Σ over the bins before j of K·e^{b·low}·expm1(b·width). */
  readonly #ahead: Float64Array;
  /** K·e^{b·low} of each bin. */
  readonly #straddled: Float64Array;

  /**
   * @param chances - b_τ in 1/µs
   * @param mean - E[L], where it is known more precisely than from the bins
   */
  constructor(distribution: Histogram, chances: number, mean = meanOf(distribution)) {
    assert(chances > 0 && mean > 0, `b_τ ${chances} per µs and a mean of ${mean} µs`);
    this.chances = chances;
    this.mean = mean;
    const { edges, masses } = distribution;
    const bins = [...masses.keys()].filter((j) => masses[j]! > 0);
    const map = (value: (j: number) => number): Float64Array => Float64Array.from(bins, value);
    this.#low = map((j) => edges[j]!);
    this.#high = map((j) => edges[j + 1]!);
    this.#weight = map((j) => masses[j]! / (edges[j + 1]! - edges[j]!) / (mean * chances));
    this.#straddled = map(
      (j) => (masses[j]! / (edges[j + 1]! - edges[j]!) / (mean * chances)) * Math.exp(chances * edges[j]!),
    );
    this.#ahead = new Float64Array(bins.length + 1);
    for (let i = 0; i < bins.length; i++) {
      const grown = this.#straddled[i]! * Math.expm1(chances * (this.#high[i]! - this.#low[i]!));
      this.#ahead[i + 1] = this.#ahead[i]! + grown;
    }
  }

  get least(): number {
    return this.#low[0]!;
  }
  get most(): number {
    return this.#high[this.#high.length - 1]!;
  }

  /**
   * Number of milestones that have passed. Milestones come in the order: the highest bin's end, its beginning, then the
   * next lower bin's end, and so on. In an even phase no bin is straddled. `milestone` itself decides: beside instants
   * of 2^50 µs a slack would round differently, and a milestone could be due for ever.
   */
  phaseAt(deadline: number, now: number): number {
    let phase = 0;
    while (this.milestone(deadline, phase) <= now) phase++;
    return phase;
  }
  /** Instant at which a phase ends; Infinity for the last one. */
  milestone(deadline: number, phase: number): number {
    return phase >= 2 * this.#low.length ? Infinity : deadline - this.#boundary(phase);
  }

  /** @param decay - e^{−b(D−t0)} */
  alpha(phase: number, decay: number): number {
    const bins = this.#low.length - ((phase + 1) >> 1);
    return phase % 2 === 0 ? decay * this.#ahead[bins]! : decay * (this.#ahead[bins]! - this.#straddled[bins]!);
  }
  beta(phase: number): number {
    return phase % 2 === 0 ? 0 : this.#weight[this.#low.length - ((phase + 1) >> 1)]!;
  }

  /** Score p for c = 1, from B2's closed forms. It needs no base time, so it is exact where lines round. */
  scoreAt(slack: number): number {
    let score = 0;
    for (let i = 0; i < this.#low.length && this.#low[i]! < slack; i++) {
      const [low, high] = [this.#low[i]!, this.#high[i]!];
      const weight = this.#weight[i]!;
      score +=
        slack > high
          ? weight * Math.expm1(this.chances * (high - low)) * Math.exp(this.chances * (low - slack))
          : -weight * Math.expm1(this.chances * (low - slack));
    }
    return score;
  }

  /** Boundary number `index`, in the order in which slacks reach boundaries. */
  #boundary(index: number): number {
    const bin = this.#low.length - 1 - (index >> 1);
    return index % 2 === 0 ? this.#high[bin]! : this.#low[bin]!;
  }
}
