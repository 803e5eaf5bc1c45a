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
  recordedRate,
  recordedTime,
  withArrivals,
} from "@tutti/simulator";
import { CommandError } from "@tutti/admin";
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
 *
 * @throws {CommandError} too little of a recording is left at the rate that was found
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
  for (const [i, { goodputRps }] of perSeed.entries()) checkRecording(given[i]!, goodputRps, options);
  const found: Goodput = {
    goodputRps: mean(perSeed.map(({ goodputRps }) => goodputRps)),
    worstModelBadRate: Math.max(...perSeed.map(({ worstModelBadRate }) => worstModelBadRate)),
    bound: meanBound(perSeed.map(({ bound }) => bound)),
    trials: perSeed.flatMap(({ trials }) => trials),
  };
  return { found, perSeed };
}

/**
 * The fewest accelerators that are enough for every seed, with the bound of the seed that needs the most.
 *
 * @throws {CommandError} too little of a recording is left at the rate
 */
export async function findMinGpus(given: readonly Scenario[], options: SearchOptions): Promise<Found<MinGpus>> {
  for (const scenario of given) checkRecording(scenario, scenario.rate, options);
  const arrivalsMin = options.short === true ? micros(0) : ARRIVALS_MIN;
  const perSeed = await searchAll(given, options, (scenario, evaluate, onTrial) =>
    minGpus(scenario, evaluate, { arrivalsMin, onTrial }),
  );
  const neediest = perSeed.reduce((a, b) => ((b.minGpus ?? Infinity) > (a.minGpus ?? Infinity) ? b : a));
  return { found: { ...neediest, trials: perSeed.flatMap(({ trials }) => trials) }, perSeed };
}

/** A number of accelerators, and how far what they carry is above a rate: 0.12 for 12 %. */
export interface Headroom {
  readonly gpus: number;
  readonly goodputRps: number;
  readonly share: number;
}

/** Headroom above the scenarios' rate with so many accelerators and with one more. */
export async function findHeadroom(
  given: readonly Scenario[],
  gpusMin: number,
  options: SearchOptions,
): Promise<Headroom[]> {
  const found: Headroom[] = [];
  for (const gpus of [gpusMin, gpusMin + 1]) {
    const scenarios = given.map((scenario) => ({ ...scenario, gpus }));
    const { goodputRps } = (await findGoodput(scenarios, options)).found;
    found.push({ gpus, goodputRps, share: Math.max(0, goodputRps / given[0]!.rate - 1) });
  }
  return found;
}

/** A recording is over sooner at a higher rate: at some rate hardly a request is left to judge 1 % by. */
function checkRecording({ arrivals, duration, warmup }: Scenario, rate: number, { short }: SearchOptions): void {
  if (arrivals.process !== "trace" || rate <= 0) return;
  const least = short === true ? Math.min(ARRIVALS_MIN, duration - warmup) : ARRIVALS_MIN;
  const lasts = recordedTime(arrivals.entries, rate);
  const counted = Math.max(0, lasts - warmup);
  if (counted >= least) return;
  const [all, judged, wanted] = [lasts, counted, least].map((time) => `${Number((time / 1e6).toPrecision(2))} s`);
  const needed = Math.ceil(((least + warmup) * rate) / recordedRate(arrivals.entries) / 1e6);
  throw new CommandError(
    `at ${Math.round(rate).toLocaleString("en-US")} r/s the recording lasts only ${all}, of which ${judged} after the warm-up: too little to judge 1 % bad by; ` +
      `so that ${wanted} are left, record for ${needed} s of such traffic (\`tutti record --seconds ${needed}\`)`,
  );
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
