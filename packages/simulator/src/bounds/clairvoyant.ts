/**
 * The least accelerator time that serves nearly all requests of a model in time, with every arrival known beforehand
 * and an unlimited number of accelerators. No scheduler can do with less, so it is a bound on every goodput
 * (docs/algorithms.md, A7).
 *
 *   BOUND-1. Requests are served in the order of their deadlines: a batch is a run of consecutive requests, less those
 *            skipped. It starts no earlier than delay(b) after its last arrival and ends by its first deadline.
 *   BOUND-2. Only requests between batches are skipped. Where all have one SLO that is no restriction: instead of one
 *            inside a batch its first may be skipped, for a batch of the same size with a later deadline.
 *   BOUND-3. Skips have a price μ, and the time bought is reduced by μ times the skips that are allowed. Whatever μ,
 *            that is never more than the least time within the allowance (Lagrangian duality); the search finds the
 *            best μ.
 */
import { assert } from "@tutti/units";

/** Requests of one model, in order of deadline; µs. */
export interface ClairvoyantStream {
  readonly arrivals: Float64Array;
  /** Time by which the batch must have ended: the delivery of the answer is already subtracted. */
  readonly deadlines: Float64Array;
}

/** Costs of batches: both arrays at index b, for batch sizes 1 … length − 1; µs, never falling with b. */
export interface BatchCosts {
  /** Accelerator time. */
  readonly run: Float64Array;
  /** Delay from the last arrival to the end, on an accelerator that is free. */
  readonly finish: Float64Array;
}

export interface LeastTime {
  /** Lower bound on the accelerator time, in µs. */
  readonly time: number;
  /** Price of a skip at which it was found: the search of a similar stream should begin there. */
  readonly price: number;
}

/** One solution at one price: total accelerator time and skips of a schedule that minimises time + price · skips. */
export interface PricedSchedule {
  readonly time: number;
  readonly skipped: number;
}

/** A better price can't raise the bound by more than this share. */
const PRECISION = 2e-4;
const PRICES_MAX = 24;

/**
 * The least accelerator time that serves all but `skippable` requests, from below (BOUND-3).
 *
 * @param skippable - how many may be skipped, not necessarily a whole number
 * @param price - where to begin
 */
export function leastTime(
  stream: ClairvoyantStream,
  costs: BatchCosts,
  { skippable, price }: { readonly skippable: number; readonly price?: number },
): LeastTime {
  const work = new Workspace(stream.arrivals.length);
  // A skip never costs more than running the request alone, where that is in time.
  const most = costs.run[1]!;
  const first = price !== undefined && price > 0 && price < most ? price : most / 4;
  return bestSkipPrice((price) => work.solve(stream, costs, price), { skippable, first, most, passes: PRICES_MAX });
}

export interface SkipPriceOptions {
  readonly skippable: number;
  /** Price to begin with. */
  readonly first: number;
  /** No higher price can be better. */
  readonly most: number;
  /** Most schedules to be solved. */
  readonly passes: number;
}

/** Cutting planes: the price of a skip at which the bound of BOUND-3 is highest. */
export function bestSkipPrice(
  solve: (price: number) => PricedSchedule,
  { skippable, first, most: priceMax, passes }: SkipPriceOptions,
): LeastTime {
  let high = priceMax;
  let low = 0;
  let under: PricedSchedule | undefined; // at a price that is too low: skips too many
  let over: PricedSchedule | undefined;
  let next = first;
  let best: LeastTime = { time: 0, price: next };
  for (let i = 0; i < passes; i++) {
    const found = solve(next);
    const bound = found.time + next * (found.skipped - skippable);
    if (bound >= best.time) best = { time: bound, price: next };
    if (found.skipped > skippable) [under, low] = [found, next];
    else [over, high] = [found, next];
    if (found.skipped === skippable) break;
    if (under === undefined || over === undefined) {
      next = under === undefined ? next / 2 : Math.min(priceMax, next * 2);
      if (next === low || next < 1e-3) break;
      continue;
    }
    // Each schedule is a line over μ that lies above the bound everywhere; the two lines cross where the bound can be
    // highest.
    const crossing = (over.time - under.time) / (under.skipped - over.skipped);
    const most = over.time + crossing * (over.skipped - skippable);
    if (most - best.time <= PRECISION * most || !(crossing > low && crossing < high)) break;
    next = crossing;
  }
  return best;
}

/** The schedule of least time + price · skips; for tests and other uses that need more than the bound. */
export function pricedSchedule(stream: ClairvoyantStream, costs: BatchCosts, price: number): PricedSchedule {
  return new Workspace(stream.arrivals.length).solve(stream, costs, price);
}

/** Dynamic programming over prefixes of the stream: O(requests · largest batch that is in time). */
class Workspace {
  /** Least time + price · skips of the first j requests. */
  readonly #least: Float64Array;
  readonly #skipped: Int32Array;

  constructor(count: number) {
    this.#least = new Float64Array(count + 1);
    this.#skipped = new Int32Array(count + 1);
  }

  solve({ arrivals, deadlines }: ClairvoyantStream, { run, finish }: BatchCosts, price: number): PricedSchedule {
    assert(run.length === finish.length && run.length >= 2, "costs of no batch");
    const least = this.#least;
    const skipped = this.#skipped;
    const count = arrivals.length;
    const batchSizeMax = run.length - 1;
    for (let end = 1; end <= count; end++) {
      let best = least[end - 1]! + price;
      let skips = skipped[end - 1]! + 1;
      let lastArrival = -Infinity;
      const sizes = end < batchSizeMax ? end : batchSizeMax;
      for (let size = 1; size <= sizes; size++) {
        const first = end - size;
        if (arrivals[first]! > lastArrival) lastArrival = arrivals[first]!;
        // Larger batches start no earlier, run no shorter and have no later deadline.
        if (lastArrival + finish[size]! > deadlines[first]!) break;
        const total = least[first]! + run[size]!;
        if (total < best) {
          best = total;
          skips = skipped[first]!;
        }
      }
      least[end] = best;
      skipped[end] = skips;
    }
    return { time: least[count]! - price * skipped[count]!, skipped: skipped[count]! };
  }
}
