/** A whole measurement: a sweep of rates, or the search for the highest good one. */
import { highestGoodRate } from "@tutti/simulator";
import type { LoadStream } from "./arrivals.ts";
import { nameOf } from "./arrivals.ts";
import type { TrialReport } from "./trial.ts";

export const REPORT_FORMAT = "tutti-bench";
export const REPORT_VERSION = 1;

export interface BenchReport {
  readonly format: typeof REPORT_FORMAT;
  readonly version: number;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  readonly command: string;
  /** `nats://…` or `http://…`. */
  readonly target: string;
  /** `poisson`, `gamma:0.5`, `uniform`, `trace:file`. */
  readonly arrivals: string;
  readonly seed: number;
  readonly warmupSeconds: number;
  readonly streams: readonly {
    readonly name: string;
    readonly model: string;
    readonly app: string;
    readonly sloMs: number;
    readonly weight: number;
  }[];
  /** In the order in which they were made. */
  readonly trials: readonly TrialReport[];
  /** Result of the search, where there was one. */
  readonly goodput?: GoodputFound;
  /** The client was the bottleneck in some trial: its figures are then (also) those of the client. */
  readonly wasBottleneck: boolean;
  readonly interrupted: boolean;
}
export interface GoodputFound {
  /** The highest rate tried with at most 1 % bad for every model; 0 where none was. */
  readonly goodputRps: number;
  /** The lowest rate that was bad; absent where none was tried. */
  readonly badRps?: number;
  /** The search ended because the client could do no more: the cluster may carry more than `goodputRps`. */
  readonly limitedByClient: boolean;
}

export type Plan =
  { readonly kind: "rates"; readonly rates: readonly number[] } | { readonly kind: "goodput"; readonly first: number };

export interface Findings {
  readonly trials: readonly TrialReport[];
  readonly goodput?: GoodputFound;
}

/** Relative precision of the search: each trial is a noisy measurement. */
const PRECISION = 0.05;
const FIRST_STEP = 1.5;
const TRIALS_MOST = 16;
/** Largest factor between the first rate and the searched ones: a cluster outside it needs another first rate. */
const FAR = 1_000;

/** Tries the rates one after the other, or searches; `attempt` runs one trial. An interrupted trial is the last. */
export async function measure(plan: Plan, attempt: (rate: number) => Promise<TrialReport>): Promise<Findings> {
  const trials: TrialReport[] = [];
  const tried = async (rate: number): Promise<TrialReport> => {
    const trial = await attempt(rate);
    trials.push(trial);
    return trial;
  };
  if (plan.kind === "rates") {
    for (const rate of plan.rates) if ((await tried(rate)).interrupted) break;
    return { trials };
  }
  let limitedByClient = false;
  const { good, bad } = await highestGoodRate(
    async (rate) => {
      if (trials.length >= TRIALS_MOST) return "stop";
      const trial = await tried(rate);
      if (trial.interrupted) return "stop";
      if (trial.isGood || !trial.client.wasBottleneck) return { rateRps: rate, good: trial.isGood };
      // A rate that is bad because of the client says nothing about the cluster, at this rate or above.
      limitedByClient = true;
      return "stop";
    },
    { first: plan.first, firstStep: FIRST_STEP, least: plan.first / FAR, most: plan.first * FAR, precision: PRECISION },
  );
  return {
    trials,
    goodput: {
      goodputRps: good?.rateRps ?? 0,
      ...(bad !== undefined && { badRps: bad.rateRps }),
      limitedByClient,
    },
  };
}

export interface ReportParts extends Pick<
  BenchReport,
  "startedAt" | "command" | "target" | "arrivals" | "seed" | "warmupSeconds"
> {
  readonly streams: readonly LoadStream[];
  readonly findings: Findings;
}

export function reportOf({ streams, findings, ...rest }: ReportParts): BenchReport {
  const { trials, goodput } = findings;
  return {
    ...{ format: REPORT_FORMAT, version: REPORT_VERSION },
    ...rest,
    streams: streams.map((stream) => ({
      ...{ name: nameOf(stream), model: stream.model, app: stream.app },
      ...{ sloMs: stream.slo / 1_000, weight: stream.weight },
    })),
    trials,
    ...(goodput !== undefined && { goodput }),
    wasBottleneck: trials.some(({ client }) => client.wasBottleneck),
    interrupted: trials.some(({ interrupted }) => interrupted),
  };
}
