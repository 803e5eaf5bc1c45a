/** Goodput over several seeds at once: one search for each seed, all on the threads of one sweep. */
import {
  ARRIVALS_MIN,
  type Evaluate,
  type Goodput,
  type GoodputBound,
  type MinGpus,
  type Scenario,
  TRIALS_EXPECTED,
  type Trial,
  goodput,
  minGpus,
  withArrivals,
} from "@tutti/simulator";
import { micros } from "@tutti/units";
import type { Progress } from "./progress.ts";
import type { Sweep } from "./sweep.ts";

export interface SearchOptions {
  readonly sweep: Sweep;
  /** Scenarios keep their own duration, even if it is too short to judge a bad rate of 1 %. */
  readonly short?: boolean;
  readonly progress?: Progress;
  /** Computes the non-preemptive bound too, which may take longer than the search. */
  readonly nonPreemptive?: boolean;
  /** Relative precision of rates: a search ends when a bad rate is this share above a good one. */
  readonly precision?: number;
}

export interface Found<Result> {
  /** Combined result of all seeds. */
  readonly found: Result;
  readonly perSeed: readonly Result[];
}

/**
 * Searches each scenario, which differ in their seeds only. The combined result has the mean goodput and bounds, the
 * worst bad rate, and all trials.
 */
export async function findGoodput(given: readonly Scenario[], options: SearchOptions): Promise<Found<Goodput>> {
  const { precision } = options;
  const arrivalsMin = options.short === true ? micros(0) : ARRIVALS_MIN;
  const perSeed = await searchAll(given, options, async (scenario, evaluate, onTrial) => {
    const judged = withArrivals(scenario, arrivalsMin);
    const plain = await options.sweep.bound(judged);
    const tight = options.nonPreemptive === true;
    const nonPreemptive = tight ? options.sweep.nonPreemptive(judged, plain.clairvoyantRps) : undefined;
    const bound = { ...plain, ...(nonPreemptive && { nonPreemptiveRps: await nonPreemptive }) };
    return goodput(scenario, evaluate, { arrivalsMin, onTrial, bound, ...(precision !== undefined && { precision }) });
  });
  const found: Goodput = {
    goodputRps: mean(perSeed.map(({ goodputRps }) => goodputRps)),
    worstModelBadRate: Math.max(...perSeed.map(({ worstModelBadRate }) => worstModelBadRate)),
    bound: meanBound(perSeed.map(({ bound }) => bound)),
    trials: perSeed.flatMap(({ trials }) => trials),
  };
  return { found, perSeed };
}

/** The fewest accelerators that are enough for every seed, with the bound of the seed that needs the most. */
export async function findMinGpus(given: readonly Scenario[], options: SearchOptions): Promise<Found<MinGpus>> {
  const arrivalsMin = options.short === true ? micros(0) : ARRIVALS_MIN;
  const perSeed = await searchAll(given, options, (scenario, evaluate, onTrial) =>
    minGpus(scenario, evaluate, { arrivalsMin, onTrial }),
  );
  const neediest = perSeed.reduce((a, b) => ((b.minGpus ?? Infinity) > (a.minGpus ?? Infinity) ? b : a));
  return { found: { ...neediest, trials: perSeed.flatMap(({ trials }) => trials) }, perSeed };
}

function searchAll<Result>(
  scenarios: readonly Scenario[],
  { sweep, progress }: SearchOptions,
  search: (scenario: Scenario, evaluate: Evaluate, onTrial: (trial: Trial) => void) => Promise<Result>,
): Promise<Result[]> {
  const trials = scenarios.map(() => 0);
  // The number of a search's trials is known only at its end: until then at least one more is expected.
  const expected = scenarios.map(() => TRIALS_EXPECTED);
  const show = (note: string): void => progress?.update({ done: sum(trials), total: sum(expected), note });
  show("");
  return Promise.all(
    scenarios.map(async (scenario, i) => {
      const evaluate: Evaluate = (trial) => sweep.run(trial);
      const result = await search(scenario, evaluate, (trial) => {
        trials[i]!++;
        expected[i] = Math.max(expected[i]!, trials[i]! + 1);
        show(textOfTrial(trial));
      });
      expected[i] = trials[i]!;
      return result;
    }),
  );
}

const textOfTrial = ({ seed, gpus, rateRps, worstModelBadRate }: Trial): string =>
  `seed ${seed}: ${rateRps.toFixed(0)} r/s on ${gpus}: ${(worstModelBadRate * 100).toFixed(2)} % bad`;

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
const mean = (numbers: readonly number[]): number => sum(numbers) / numbers.length;

function meanBound(bounds: readonly GoodputBound[]): GoodputBound {
  const tight = bounds.flatMap(({ nonPreemptiveRps }) => nonPreemptiveRps ?? []);
  return {
    staggeredRps: mean(bounds.map(({ staggeredRps }) => staggeredRps)),
    uncoordinatedRps: mean(bounds.map(({ uncoordinatedRps }) => uncoordinatedRps)),
    clairvoyantRps: mean(bounds.map(({ clairvoyantRps }) => clairvoyantRps)),
    ...(tight.length === bounds.length && { nonPreemptiveRps: mean(tight) }),
  };
}
