/**
 * Goodput: the highest total rate at which every model, and every SLO class of it, keeps at most 1 % bad requests
 * (docs/algorithms.md, A7); and its inverse, the fewest accelerators for a rate. Both try scenarios one after the
 * other; the caller runs them.
 */
import { type Micros, assert, seconds } from "@tutti/units";
import { BAD_RATE_MAX, type GoodputBound, boundOf, leastBusy } from "./bounds/bounds.ts";
import type { StreamResult } from "./results/metrics.ts";
import type { Scenario } from "./scenario/scenario.ts";

/** Runs a scenario, here or on another thread. */
export type Evaluate = (scenario: Scenario) => Promise<Judged>;
/** The part of a result that the search evaluates: each (model, SLO class) by itself. */
export interface Judged {
  readonly streams: readonly Pick<StreamResult, "model" | "offered" | "bad">[];
}

export interface Trial {
  readonly seed: number;
  readonly gpus: number;
  readonly rateRps: number;
  /** Highest bad rate of all models and of all their SLO classes: 0 … 1. */
  readonly worstModelBadRate: number;
  readonly worstModel: string;
  /** Whether every model has at most 1 % bad requests, and there were any requests. */
  readonly good: boolean;
}

export interface Goodput {
  /** 0 where even a thousandth of the bound is too much. */
  readonly goodputRps: number;
  /** Highest bad rate of any model at `goodputRps`. */
  readonly worstModelBadRate: number;
  readonly bound: GoodputBound;
  /**
   * Trials in the order in which they were made. The good rate isn't monotone under every policy: a good trial above
   * `goodputRps` shows it.
   */
  readonly trials: readonly Trial[];
}

export interface GoodputOptions {
  /** Called with every trial as it ends. */
  readonly onTrial?: (trial: Trial) => void;
  /** The search ends when a bad rate is this share above a good one. */
  readonly precision?: number;
  /** Least duration of a run, warm-up excluded. */
  readonly arrivalsMin?: Micros;
  /** The bound, where it was computed already. */
  readonly bound?: GoodputBound;
}

/** A shorter run says too little about a bad rate of 1 %. */
export const ARRIVALS_MIN = seconds(20);
/**
 * Rate of the first trial, as a share of the clairvoyant bound. From there it changes in growing steps until a good and
 * a bad rate are known.
 */
const FIRST = 0.9;
const FIRST_STEP = 1.06;
/** Share of the bound below which the goodput is called 0. */
const HOPELESS = 1e-3;
/** Multiple of the bound at which the search ends: an evaluation that gets there calls every rate good. */
const ABSURD = 4;

/**
 * The scenario with at least `arrivalsMin` of arrivals after its warm-up, and with all of its accelerators all the
 * time.
 */
export function withArrivals({ planner: _, ...scenario }: Scenario, arrivalsMin: Micros): Scenario {
  return { ...scenario, duration: Math.max(scenario.duration, scenario.warmup + arrivalsMin) as Micros };
}

/** Searches for the goodput by geometric bisection from the bound. The scenario's own rate doesn't matter. */
export async function goodput(given: Scenario, evaluate: Evaluate, options: GoodputOptions = {}): Promise<Goodput> {
  const { onTrial, precision = BISECTION_PRECISION, arrivalsMin = ARRIVALS_MIN } = options;
  const scenario = withArrivals(given, arrivalsMin);
  const bound = options.bound ?? boundOf(scenario);
  const { trials, attempt } = recorder(evaluate, onTrial);
  const top = bound.clairvoyantRps;
  const { good, bad } = await highestGoodRate((rate) => attempt({ ...scenario, rate }), {
    first: top * FIRST,
    firstStep: FIRST_STEP,
    least: top * HOPELESS,
    most: top * ABSURD,
    precision,
  });
  const { rateRps: goodputRps, worstModelBadRate } = good ?? {
    rateRps: 0,
    worstModelBadRate: bad?.worstModelBadRate ?? 1,
  };
  return { goodputRps, worstModelBadRate, bound, trials };
}

export interface RateSearch {
  /** Rate of the first trial. From there it changes in growing steps until a good and a bad rate are known. */
  readonly first: number;
  readonly firstStep: number;
  /** The search ends at rates that are not between the two. */
  readonly least: number;
  readonly most: number;
  /** The search ends when a bad rate is this share above a good one. */
  readonly precision: number;
}

/**
 * Geometric bisection with any evaluation of rates: a simulator, or a load generator. A trial that returns "stop" ends
 * it.
 */
export async function highestGoodRate<One extends { readonly rateRps: number; readonly good: boolean }>(
  attempt: (rate: number) => Promise<One | "stop">,
  { first, firstStep, least, most, precision }: RateSearch,
): Promise<{ readonly good: One | undefined; readonly bad: One | undefined }> {
  let good: One | undefined;
  let bad: One | undefined;
  let rate = first;
  let step = firstStep;
  while (rate > least && rate < most) {
    const trial = await attempt(rate);
    if (trial === "stop") break;
    if (trial.good) good = trial;
    else bad = trial;
    if (good !== undefined && bad !== undefined) {
      if (bad.rateRps <= good.rateRps * (1 + precision)) break;
      rate = Math.sqrt(good.rateRps * bad.rateRps);
    } else {
      rate = good === undefined ? rate / step : rate * step;
      step **= 1.5;
    }
  }
  return { good, bad };
}

export const BISECTION_PRECISION = 0.01;
/** Expected number of trials of a search, for progress bars. */
export const TRIALS_EXPECTED = 7;

export interface MinGpus {
  /** Undefined where `gpusMax` accelerators are too few. */
  readonly minGpus: number | undefined;
  readonly worstModelBadRate: number;
  /** Bound of a cluster with that number of accelerators. */
  readonly bound: GoodputBound;
  readonly trials: readonly Trial[];
}

export interface MinGpusOptions {
  readonly onTrial?: (trial: Trial) => void;
  readonly arrivalsMin?: Micros;
  readonly gpusMax?: number;
}

const GPUS_MAX = 4096;

/**
 * The fewest accelerators that carry the scenario's rate with every model in bounds. The scenario's own number doesn't
 * matter.
 */
export async function minGpus(given: Scenario, evaluate: Evaluate, options: MinGpusOptions = {}): Promise<MinGpus> {
  assert(given.rate > 0, "a rate to be carried");
  const { onTrial, arrivalsMin = ARRIVALS_MIN, gpusMax = GPUS_MAX } = options;
  const scenario = withArrivals(given, arrivalsMin);
  const { trials, attempt } = recorder(evaluate, onTrial);
  const { subClusters = 1 } = scenario;
  const least = Math.max(subClusters, Math.ceil(leastBusy(scenario) * (1 - 1e-3)));
  // Fewer can't be enough, even with every arrival known beforehand; but the bound is of whole accelerators.
  let few = scenario.models.some(({ parts }) => parts !== undefined) ? subClusters - 1 : least - 1;
  let enough: Trial | undefined;
  let gpus = least;
  let step = Math.max(1, Math.ceil(least * 0.06));
  while (few < gpusMax && (enough === undefined || enough.gpus - few > 1)) {
    const trial = await attempt({ ...scenario, gpus });
    if (trial.good) enough = trial;
    else few = gpus;
    if (enough === undefined) {
      gpus = Math.min(gpusMax, gpus + step);
      step = Math.ceil(step * 1.5);
    } else gpus = Math.floor((few + enough.gpus) / 2);
  }
  const bound = boundOf({ ...scenario, gpus: enough?.gpus ?? gpusMax });
  const { worstModelBadRate } = enough ?? trials.at(-1) ?? { worstModelBadRate: 1 };
  return { minGpus: enough?.gpus, worstModelBadRate, bound, trials };
}

function recorder(evaluate: Evaluate, onTrial: ((trial: Trial) => void) | undefined) {
  const trials: Trial[] = [];
  const attempt = async (scenario: Scenario): Promise<Trial> => {
    const { streams } = await evaluate(scenario);
    let worst = 0;
    let worstModel = 0;
    for (const { model, offered, bad } of streams) {
      const badRate = offered > 0 ? bad / offered : 0;
      if (badRate > worst) [worst, worstModel] = [badRate, model];
    }
    const { seed, gpus, rate } = scenario;
    const trial: Trial = {
      seed,
      gpus,
      rateRps: rate,
      worstModelBadRate: worst,
      worstModel: (scenario.models[worstModel] ?? scenario.pipelines![worstModel - scenario.models.length])!.name,
      // A recording may be over within the warm-up: nothing was judged then.
      good: worst <= BAD_RATE_MAX && streams.some(({ offered }) => offered > 0),
    };
    trials.push(trial);
    onTrial?.(trial);
    return trial;
  };
  return { trials, attempt };
}
