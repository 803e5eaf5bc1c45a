/**
 * `tutti plan scale`: the number of accelerators for each window, as JSON with public field names (docs/algorithms.md,
 * A8).
 */
import { ScalingAdvisor } from "@tutti/planning";
import { type DetailedRun, type MinGpus, type Scenario, minGpus } from "@tutti/simulator";
import { micros } from "@tutti/units";
import type { ScaleInput } from "./scale-input.ts";

export interface ScaleResult {
  readonly kind: "scale";
  /**
   * Whether some number of accelerators is enough for every rate of the forecast. Without the simulator: whether no
   * window was bad except right after a step.
   */
  readonly feasible: boolean;
  readonly windows: readonly WindowResult[];
  /** Mean over windows. */
  readonly gpusMean: number;
  /** Share of bad requests among all. */
  readonly badRate: number;
}
export interface WindowResult {
  readonly window: number;
  readonly rate: number;
  /** Accelerators at the window's beginning, including those that the forecast added. */
  readonly gpus: number;
  readonly badRate: number;
  readonly idleShare: number;
  /** A8 for this window alone. */
  readonly windowAdvice: Advice;
  /**
   * The change after this window. A release needs several windows in a row that all offered some, and never goes below
   * the fewest.
   */
  readonly advice: Advice;
  readonly gpusNext: number;
  /** The simulator's result; absent: it was not asked, or no number is enough. */
  readonly fewest?: number;
  /**
   * The worst model's bad rate with one accelerator less. Null: the simulator was not asked, one is the minimum, or the
   * work exceeds the time.
   */
  readonly oneLess: number | null;
}
/** Positive: to add; negative: to release. */
type Advice = number;

export interface ScaleTools {
  /** Runs a scenario on this or another thread. */
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
    // The forecast says what the next window will lack: don't release accelerators that it needs.
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

/** Whether windows are bad only right after a rate step, which was not forecast. */
const isCalm = (windows: readonly WindowResult[], badRateMax: number): boolean =>
  windows.every(({ badRate, rate }, i) => badRate <= badRateMax || rate > (windows[i - 1]?.rate ?? 0));

const badWith = (asked: number, { trials }: MinGpus): number | null =>
  trials.find(({ gpus }) => gpus === asked)?.worstModelBadRate ?? null;

const signed = (
  advice: { readonly kind: "keep" } | { readonly kind: "add" | "release"; readonly executors: number },
): Advice => (advice.kind === "keep" ? 0 : advice.kind === "add" ? advice.executors : -advice.executors);

const sum = <One>(list: readonly One[], value: (one: One) => number): number =>
  list.reduce((total, one) => total + value(one), 0);
