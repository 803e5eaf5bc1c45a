/**
 * Upper bounds on the rate of a cluster: the two closed bounds of docs/algorithms.md, A7, for mixes of fixed
 * proportions, and a clairvoyant one from the arrivals that the simulator would play. Rates in requests per second, all
 * models together.
 */
import { perSecond, uncoordinatedBatch } from "@tutti/profile";
import type { Micros } from "@tutti/units";
import { type BatchCosts, type ClairvoyantStream, leastTime } from "./clairvoyant.ts";
import { atBest, costsOf, drawnByModel, streamsOf } from "../scenario/drawn-streams.ts";
import type { Network, Scenario, ScenarioModel } from "../scenario/scenario.ts";
import { pipelineBound } from "../pipelines/pipeline-plan.ts";

export interface GoodputBound {
  /** Batches of each model are evenly spaced, and so are arrivals. */
  readonly staggeredRps: number;
  /** Accelerators aren't coordinated. */
  readonly uncoordinatedRps: number;
  /**
   * Higher than any scheduler that serves a model's requests in order of deadline can reach. 0 where a model can't meet
   * its SLO even alone.
   */
  readonly clairvoyantRps: number;
  /**
   * The same for n accelerators whose runs aren't split: non-preemptive.ts. Only where it was asked for: it takes long.
   */
  readonly nonPreemptiveRps?: number;
}

/** Share of a model's requests (of each of its SLO classes) that may be bad: docs/algorithms.md, A7. */
export const BAD_RATE_MAX = 0.01;

/**
 * Bounds of a scenario. Its `rate` doesn't matter; its seed, duration and arrival process do, for the clairvoyant
 * bound.
 */
export function boundOf(scenario: Scenario): GoodputBound {
  if (scenario.pipelines !== undefined) return pipelineBound(scenario);
  return {
    staggeredRps: staggeredRate(scenario),
    uncoordinatedRps: uncoordinatedRate(scenario),
    clairvoyantRps: clairvoyantRate(scenario),
  };
}

/** A share of the total rate with one SLO. */
interface Class {
  readonly model: ScenarioModel;
  readonly slo: Micros;
  readonly share: number;
}

function classesOf({ models }: Scenario): Class[] {
  return models.flatMap((model) => {
    const others = model.classes.map(({ slo, share }) => ({ model, slo, share: share * model.share }));
    const first = model.share - others.reduce((sum, { share }) => sum + share, 0);
    return [{ model, slo: model.slo, share: first }, ...others].filter(({ share }) => share > 1e-12);
  });
}

function canRunAlone(scenario: Scenario): boolean {
  const { ctrl, data, respond } = atBest(scenario.network);
  return classesOf(scenario).every(({ model, slo }) => ctrl + data + model.profile.latency(1) + respond <= slo);
}

/**
 * The largest rate at which the models' parts of the accelerators add up to no more than there are. A part of N
 * accelerators starts a batch every l(b)/N, so it suffices for batches of b where (1+1/N)·l(b) ≤ SLO and N·b/l(b) ≥ the
 * rate; N needn't be whole.
 */
export function staggeredRate(scenario: Scenario): number {
  if (!canRunAlone(scenario)) return 0;
  const { gpus, network } = scenario;
  const classes = classesOf(scenario);
  const needed = (perMicro: number): number => {
    return classes.reduce((sum, one) => sum + partNeeded(one, perMicro * one.share, network), 0);
  };
  let below = 0;
  let above = gpus / classes.reduce((sum, { model, share }) => sum + share * leastPerItem(model), 0);
  for (let i = 0; i < 60; i++) {
    const middle = (below + above) / 2;
    if (needed(middle) <= gpus * (1 + 1e-9)) below = middle;
    else above = middle;
  }
  return perSecond(below);
}

/** Accelerators that a class needs; the number rises with the rate (requests per µs). */
function partNeeded({ model: { profile }, slo }: Class, rate: number, { ctrl, data, respond }: Network): number {
  let least = rate * profile.latency(1); // one by one, at once
  for (let b = 1; b <= profile.batchSizeMax; b++) {
    const l = profile.byBatchSize[b]!;
    const wait = slo - ctrl - respond - data * b - l;
    if (wait <= 0) break;
    least = Math.min(least, Math.max((rate * l) / b, l / wait));
  }
  return least;
}

/** Least accelerator time per request, over all batch sizes. */
function leastPerItem({ profile }: ScenarioModel): number {
  let least = Infinity;
  for (let b = 1; b <= profile.batchSizeMax; b++) least = Math.min(least, profile.latency(b) / b);
  return least;
}

/**
 * The rate without coordination: a batch waits for a whole other one. A model whose SLO doesn't allow that even alone
 * runs requests one by one.
 */
function uncoordinatedRate(scenario: Scenario): number {
  if (!canRunAlone(scenario)) return 0;
  let perRequest = 0;
  for (const { model, slo, share } of classesOf(scenario)) {
    const { batchSize } = uncoordinatedBatch({ profile: model.profile, slo, executors: scenario.gpus });
    const batch = Math.max(1, batchSize);
    perRequest += (share * model.profile.latency(batch)) / batch;
  }
  return perSecond(scenario.gpus / perRequest);
}

/** The rate at which the least accelerator time, averaged over the arrivals, is all that the accelerators have. */
function clairvoyantRate(scenario: Scenario): number {
  if (!canRunAlone(scenario)) return 0;
  const prices: number[] = [];
  const loadAt = (logRate: number): number =>
    Math.log(leastBusy({ ...scenario, rate: Math.exp(logRate) }, prices) / scenario.gpus);
  return Math.exp(risingRoot(loadAt, Math.log(staggeredRate(scenario))));
}

/**
 * Least average number of busy accelerators when 99 % of each model's requests are served in time. It is found with an
 * unlimited number of accelerators, as described in clairvoyant.ts.
 *
 * @param prices - kept between calls for similar scenarios: where the search for the price of a skip begins
 */
export function leastBusy(scenario: Scenario, prices: number[] = []): number {
  if (scenario.pipelines !== undefined) return scenario.rate / pipelineBound({ ...scenario, gpus: 1 }).clairvoyantRps;
  let total = 0;
  let last = 0;
  let found = 0;
  const time = (stream: ClairvoyantStream, costs: BatchCosts): number => {
    const price = prices[found];
    const skippable = BAD_RATE_MAX * stream.arrivals.length;
    const least = leastTime(stream, costs, { skippable, ...(price === undefined ? {} : { price }) });
    prices[found++] = least.price;
    return least.time;
  };
  for (const { model, drawn } of drawnByModel(scenario)) {
    const costs = costsOf(model, scenario.network);
    const { joint, bySlo } = streamsOf(drawn, scenario.network);
    // All SLOs in one queue, or a queue for each: the one that takes less.
    const together = time(joint, costs);
    const apart = bySlo.reduce((sum, stream) => sum + time(stream, costs), 0);
    total += bySlo.length > 0 ? Math.min(together, apart) : together;
    last = Math.max(last, drawn.arrivals.at(-1) ?? 0);
  }
  // A trace that is played faster is over sooner.
  const span =
    scenario.arrivals.process === "trace" ? Math.min(Math.max(1, last), scenario.duration) : scenario.duration;
  return total / span;
}

export interface LeastOfPhase {
  /** µs from the beginning. */
  readonly from: number;
  readonly until: number;
  /** Accelerators that are busy on average, at least. */
  readonly gpus: number;
}

/**
 * `leastBusy` for the rates of each phase by themselves: the accelerators of a planner that knows all of them.
 *
 * @param sample - arrivals that stand for a phase, in µs
 */
export function leastBusyByPhase(scenario: Scenario, sample: Micros): readonly LeastOfPhase[] {
  const { duration } = scenario;
  const first = scenario.phases[0]?.from === 0 ? [] : [{ from: 0 as Micros, factor: 1 }];
  const phases = [...first, ...scenario.phases].filter(({ from }) => from < duration);
  return phases.map((phase, i) => {
    const until = phases[i + 1]?.from ?? duration;
    const alone = { ...scenario, duration: sample, phases: [{ ...phase, from: 0 as Micros }] };
    return { from: phase.from, until, gpus: phase.factor > 0 ? leastBusy(alone) : 0 };
  });
}

const ROOT_PRECISION = 5e-4;

/**
 * Root of f, which rises with a slope of about 1: steps along the slope until both sides are known, then false
 * position.
 */
function risingRoot(f: (x: number) => number, start: number): number {
  let low: readonly [number, number] | undefined;
  let high: readonly [number, number] | undefined;
  let x = start;
  for (let i = 0; i < 24; i++) {
    const y = f(x);
    if (Math.abs(y) <= ROOT_PRECISION) return x;
    if (y < 0) low = [x, y];
    else high = [x, y];
    if (low === undefined || high === undefined) x -= 1.2 * y;
    else {
      // Draws differ a little from rate to rate, so f isn't quite smooth: stay off the ends.
      const share = Math.min(0.9, Math.max(0.1, -low[1] / (high[1] - low[1])));
      x = low[0] + share * (high[0] - low[0]);
      if (high[0] - low[0] <= ROOT_PRECISION) return x;
    }
  }
  return x;
}
