/**
 * `tutti plan scale`: how many accelerators, window after window, as JSON with public field names. docs/algorithms.md,
 * A8.
 */
import { ScalingAdvisor } from "@tutti/planning";
import { type DetailedRun, type MinGpus, type Scenario, minGpus } from "@tutti/simulator";
import { micros } from "@tutti/units";
import type { ScaleInput } from "./scale-input.ts";

export interface ScaleResult {
  readonly kind: "scale";
  /**
   * For every rate of the forecast some number of accelerators is enough. Where nobody was asked: no window was bad but
   * right after a step.
   */
  readonly feasible: boolean;
  readonly windows: readonly WindowResult[];
  /** Mean over windows. */
  readonly gpusMean: number;
  /** Requests that were bad, of all. */
  readonly badRate: number;
}
export interface WindowResult {
  readonly window: number;
  readonly rate: number;
  /** Accelerators at its beginning, after what a forecast asked for. */
  readonly gpus: number;
  readonly badRate: number;
  readonly idleShare: number;
  /** A8, of this window alone. */
  readonly windowAdvice: Advice;
  /** What is done then: fewer only after windows in a row that all offered some, and never below the fewest. */
  readonly advice: Advice;
  readonly gpusNext: number;
  /** By the simulator; left out where nobody was asked, or no number is enough. */
  readonly fewest?: number;
  /**
   * Would one less do? The worst model's bad rate. Null: nobody was asked, one is the least there is, or there is more
   * work than time.
   */
  readonly oneLess: number | null;
}
/** Positive: to add; negative: to release. */
type Advice = number;

export interface ScaleTools {
  /** Runs a scenario, here or on another thread. */
  readonly run: (scenario: Scenario) => Promise<DetailedRun>;
  readonly onStep: (step: { readonly done: number; readonly total: number; readonly note: string }) => void;
}

export async function runScale(input: ScaleInput, { run, onStep }: ScaleTools): Promise<ScaleResult> {
  const { scenario, rates, ask, advice } = input;
  const distinct = [...new Set(rates)];
  const total = rates.length + (ask ? distinct.length : 0);
  let done = 0;
  const step = (note: string): void => onStep({ done: done++, total, note });
  const fewest = new Map<number, MinGpus>();
  if (ask) {
    await Promise.all(
      distinct.map(async (rate) => {
        fewest.set(rate, await minGpus({ ...scenario, rate }, run, { arrivalsMin: micros(0) }));
        step(`the fewest for ${rate} r/s`);
      }),
    );
  }
  const advisor = new ScalingAdvisor(advice);
  const windows: WindowResult[] = [];
  let gpus = input.gpus;
  let [bad, offered] = [0, 0];
  for (const [window, rate] of rates.entries()) {
    step(`window ${window}`);
    const { streams, result } = await run({ ...scenario, rate, gpus, seed: (scenario.seed + window) >>> 0 });
    const counts = { bad: sum(streams, (one) => one.bad), total: sum(streams, (one) => one.offered) };
    const idleShare = Math.max(0, 1 - result.gpu.busyFraction);
    const known = fewest.get(rate);
    // The forecast of the next window says what will be missing then; nobody releases what it is about to ask for.
    const ahead = fewest.get(rates[window + 1] ?? rate)?.minGpus ?? 1;
    const least = Math.max(known?.minGpus ?? 1, ahead);
    const told = advisor.step({ executors: gpus, ...counts, idleShare, fewest: least });
    windows.push({
      ...{ window, rate, gpus, badRate: counts.total === 0 ? 0 : counts.bad / counts.total, idleShare },
      ...{ windowAdvice: signed(told.window), advice: told.executors - gpus, gpusNext: told.executors },
      ...(known?.minGpus !== undefined && { fewest: known.minGpus }),
      oneLess: known?.minGpus === undefined ? null : badWith(known.minGpus - 1, known),
    });
    bad += counts.bad;
    offered += counts.total;
    gpus = told.executors;
  }
  return {
    kind: "scale",
    feasible: ask
      ? distinct.every((rate) => fewest.get(rate)?.minGpus !== undefined)
      : isCalm(windows, advice.badRateMax),
    windows,
    gpusMean: sum(windows, (one) => one.gpus) / windows.length,
    badRate: offered === 0 ? 0 : bad / offered,
  };
}

/** Nothing is bad but in the first window of a higher rate, which nobody has foretold. */
const isCalm = (windows: readonly WindowResult[], badRateMax: number): boolean =>
  windows.every(({ badRate, rate }, i) => badRate <= badRateMax || rate > (windows[i - 1]?.rate ?? 0));

const badWith = (asked: number, { trials }: MinGpus): number | null =>
  trials.find(({ gpus }) => gpus === asked)?.worstModelBadRate ?? null;

const signed = (
  advice: { readonly kind: "keep" } | { readonly kind: "add" | "release"; readonly executors: number },
): Advice => (advice.kind === "keep" ? 0 : advice.kind === "add" ? advice.executors : -advice.executors);

const sum = <One>(list: readonly One[], value: (one: One) => number): number =>
  list.reduce((total, one) => total + value(one), 0);
