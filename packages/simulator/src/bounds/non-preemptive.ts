/**
 * A bound on the goodput of n accelerators whose runs are not split: tighter than the clairvoyant one, which takes the
 * accelerators' time as one sum over the whole run (docs/algorithms.md, A7).
 *
 *   NONP-1. Accelerator time has a price that changes over time. Whatever the prices, n accelerators are worth n times
 *           their integral, and a schedule within the allowance of skips costs no less than each model's cheapest one.
 *           A rate at which the models' cheapest schedules cost more than the accelerators are worth is not reached.
 *   NONP-2. Prices are sought by subgradient steps: time that the cheapest schedules ask for more often than there are
 *           accelerators becomes dearer. Better prices make the bound tighter; bad ones don't make it wrong.
 *   NONP-3. Only requests that are judged count: those after the warm-up.
 */
import { type ClairvoyantStream, bestSkipPrice } from "./clairvoyant.ts";
import { BAD_RATE_MAX } from "./bounds.ts";
import { costsOf, drawnByModel, streamsOf } from "../scenario/drawn-streams.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { PricedStream, TimePrices } from "./time-prices.ts";

/** Each rate that is tried, as a share of the last one that was found too high. */
const RATE_STEP = 0.96;
/** Share of the clairvoyant bound at which the search ends. */
const SHARE_MIN = 0.01;
/** Most prices that are tried for one rate. */
const STEPS_MAX = 60;
/** A rate is given up where so many more steps wouldn't suffice at the pace of the last `PACE_STEPS`. */
const STEPS_AHEAD = 40;
const PACE_STEPS = 5;
/** Cells of a grid, and how many of them the shortest slack should have. */
const CELLS_MAX = 2 ** 16;
const CELLS_OF_SLACK = 8;
/** Solutions for each model and step: the best price of a skip changes little from step to step. */
const PASSES_FIRST = 12;
const PASSES = 3;

/**
 * A rate that no scheduler reaches which serves each model's requests in order of deadline, in runs that are not split,
 * even one that knows all arrivals beforehand. It is at most `clairvoyantRps`, and equal to it where nothing lower can
 * be shown: for pipelines, several SLOs of one model, and parts of accelerators nothing is tried.
 */
export function nonPreemptiveRate(scenario: Scenario, clairvoyantRps: number): number {
  const { models, pipelines } = scenario;
  const covered = pipelines === undefined && models.every(({ classes, parts }) => classes.length === 0 && !parts);
  if (!covered || scenario.arrivals.process === "trace") return clairvoyantRps;
  let reached = clairvoyantRps;
  let before: Ascent | undefined;
  while (reached > SHARE_MIN * clairvoyantRps) {
    const rate = reached * RATE_STEP;
    const ascent = new Ascent({ ...scenario, rate }, before);
    if (!ascent.isTooMuch()) break;
    reached = rate;
    before = ascent;
  }
  return reached;
}

interface PricedModel {
  readonly stream: PricedStream;
  readonly skippable: number;
  skipPrice: number;
}

/** The search for prices that show a rate to be too high. */
class Ascent {
  readonly #scenario: Scenario;
  readonly #prices: TimePrices;
  readonly #models: readonly PricedModel[];
  readonly #best: Float64Array;
  readonly #load: Float64Array;
  readonly #direction: Float64Array;

  /** @param before - of a rate a little higher: the same arrivals, closer together */
  constructor(scenario: Scenario, before: Ascent | undefined) {
    this.#scenario = scenario;
    const { warmup, duration } = scenario;
    const drawn = [...drawnByModel(scenario)].map(({ model, drawn }) => ({
      costs: costsOf(model, scenario.network),
      stream: judged(streamsOf(drawn, scenario.network).joint, warmup),
    }));
    const slack = Math.min(...scenario.models.map(({ slo, profile }) => slo - profile.latency(1)));
    const cells = Math.ceil(Math.min(CELLS_MAX, (CELLS_OF_SLACK * (duration - warmup)) / Math.max(1, slack)));
    this.#prices = new TimePrices(warmup, (duration - warmup) / cells, cells);
    const known = before === undefined ? undefined : before.#models;
    this.#models = drawn.map(({ stream, costs }, i) => ({
      stream: new PricedStream(stream, costs, this.#prices),
      skippable: BAD_RATE_MAX * stream.arrivals.length,
      skipPrice: known?.[i]!.skipPrice ?? costs.run[1]! / 4,
    }));
    this.#best = new Float64Array(cells);
    this.#load = new Float64Array(cells);
    this.#direction = new Float64Array(cells);
    if (before !== undefined) this.#takeOver(before);
  }

  /** Prices of the same arrivals in the other run. */
  #takeOver(before: Ascent): void {
    const { prices, from, cell } = this.#prices;
    const faster = this.#scenario.rate / before.#scenario.rate;
    for (let k = 0; k < prices.length; k++) {
      const there = before.#prices.cellOf((from + (k + 0.5) * cell) * faster);
      prices[k] = before.#best[Math.min(there, before.#best.length - 1)]!;
    }
    this.#best.set(prices);
  }

  /**
   * Steps of Polyak's length along the mean of the last subgradients; halved, from the best prices, where it stalls.
   */
  isTooMuch(): boolean {
    const { gpus } = this.#scenario;
    const { prices } = this.#prices;
    const reached: number[] = [];
    let best = 0;
    let stalled = 0;
    let length = 1;
    for (let step = 0; step < STEPS_MAX; step++) {
      const share = this.#cost(step === 0 ? PASSES_FIRST : PASSES) / (gpus * this.#prices.total);
      if (share > 1) {
        this.#best.set(prices);
        return true;
      }
      if (share > best) {
        if (share > best * 1.002) stalled = 0;
        best = share;
        this.#best.set(prices);
      } else if (++stalled >= 2) {
        stalled = 0;
        length /= 2;
        prices.set(this.#best);
        this.#direction.fill(0);
      }
      reached.push(best);
      const pace = best - (reached.at(-1 - PACE_STEPS) ?? -Infinity);
      if (best + (STEPS_AHEAD / PACE_STEPS) * pace < 1) return false;
      this.#step(share, length);
    }
    return false;
  }

  /** Cost of the models' cheapest schedules; their load is left in `#load`. */
  #cost(passes: number): number {
    this.#prices.integrate();
    this.#load.fill(0);
    let total = 0;
    for (const model of this.#models) {
      const { stream, skippable, skipPrice } = model;
      stream.reprice();
      let last = 0;
      const solve = (price: number) => stream.solve((last = price));
      const { time, price } = bestSkipPrice(solve, { skippable, first: skipPrice, most: Infinity, passes });
      if (last !== price) stream.solve(price);
      stream.addLoad(this.#load);
      model.skipPrice = price;
      total += time;
    }
    return total;
  }

  /** Raises prices where the load is above the accelerators and lowers them elsewhere; the mean price stays 1. */
  #step(share: number, length: number): void {
    const { gpus } = this.#scenario;
    const { prices, cell, total } = this.#prices;
    const direction = this.#direction;
    let square = 0;
    for (let k = 0; k < prices.length; k++) {
      const missing = this.#load[k]! - gpus;
      direction[k] = 0.5 * direction[k]! + 0.5 * (missing < 0 && prices[k] === 0 ? 0 : missing);
      square += direction[k]! ** 2 * cell;
    }
    if (square === 0) return;
    const raise = (length * (AIM - share) * gpus * total) / square;
    let sum = 0;
    for (let k = 0; k < prices.length; k++) sum += prices[k] = Math.max(0, prices[k]! + raise * direction[k]!);
    const scale = prices.length / sum;
    for (let k = 0; k < prices.length; k++) prices[k]! *= scale;
    for (const model of this.#models) model.skipPrice *= scale;
  }
}
/** Cost of the schedules, as a share of the accelerators' worth, that a step aims at. */
const AIM = 1.02;

function judged({ arrivals, deadlines }: ClairvoyantStream, warmup: number): ClairvoyantStream {
  const first = arrivals.findIndex((at) => at >= warmup);
  if (first < 0) return { arrivals: new Float64Array(0), deadlines: new Float64Array(0) };
  return { arrivals: arrivals.subarray(first), deadlines: deadlines.subarray(first) };
}
