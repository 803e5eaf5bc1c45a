/** Runs one rate for a while: the load, the outcomes of its requests, and the client's own lag. */
import type { Clock } from "@tutti/ports/clock";
import { BAD_RATE_MAX } from "@tutti/simulator";
import { type Instant, type Micros, after } from "@tutti/units";
import { type ArrivalProcess, type LoadStream, createArrivals } from "./arrivals.ts";
import { OpenLoop } from "./open-loop.ts";
import { type ClientReport, OwnLag } from "./own-lag.ts";
import { Tally, type Totals, addUp } from "./tally.ts";
import type { Target } from "./target.ts";

export interface TrialOptions {
  readonly clock: Clock;
  /** The target of this trial alone. */
  readonly target: Target;
  readonly streams: readonly LoadStream[];
  readonly arrivals: ArrivalProcess;
  /** Requests a second; for a trace 0 keeps its own pace. */
  readonly rate: number;
  readonly seed: number;
  /** Sent before the measurement, and not counted. */
  readonly warmup: Micros;
  readonly duration: Micros;
  readonly grace: Micros;
  readonly inFlightMax?: number;
  readonly utilization: () => number;
  /** Ends the trial early; requests in flight are waited for. */
  readonly signal?: AbortSignal;
  /** Called some times a second. */
  readonly onProgress?: (progress: TrialProgress) => void;
}
export interface TrialProgress {
  readonly rate: number;
  /** Share of the trial's time, warm-up included. */
  readonly done: number;
  readonly isWarmUp: boolean;
  readonly settled: number;
  readonly good: number;
  readonly p50: number | null;
  readonly p99: number | null;
  readonly inFlight: number;
}

export interface TrialReport extends Totals {
  /** The rate that was asked for; 0 for a trace at its own pace. */
  readonly rateRps: number;
  readonly seed: number;
  /** Length of the measured window. */
  readonly seconds: number;
  readonly worstModel: string;
  /** Bad rate of the worst model: 0 … 1. */
  readonly worstModelBadRate: number;
  /** At most 1 % bad, for every model. */
  readonly isGood: boolean;
  readonly client: ClientReport;
  readonly interrupted: boolean;
}

export async function runTrial(options: TrialOptions): Promise<TrialReport> {
  const { clock, target, streams, arrivals, rate, seed, warmup, duration, grace, signal } = options;
  const tally = new Tally(streams);
  const lag = new OwnLag({ clock, utilization: options.utilization });
  let from = 0 as Instant;
  const loop = new OpenLoop({
    ...{ clock, target, grace },
    ...(options.inFlightMax !== undefined && { inFlightMax: options.inFlightMax }),
    arrivals: createArrivals({ streams, arrivals, rate, seed, duration: (warmup + duration) as Micros }),
    observer: {
      sent: (request) => void (request.dueAt >= from && lag.noteSent(request.sentAt - request.dueAt)),
      settled: (request, outcome, at) => tally.settled(request, outcome, at),
      stray: (kind) => tally.stray(kind),
    },
  });
  let stoppedAt: Instant | undefined;
  const stop = (): void => {
    stoppedAt ??= clock.now();
    tally.endAt(stoppedAt);
    loop.stop();
  };
  let until = 0 as Instant;
  const measuring = clock.alarm(() => lag.begin());
  const over = clock.alarm(() => lag.end());
  const watching = clock.every(WATCH_EVERY, () => {
    const begin = from - warmup;
    const now = clock.now();
    const done = Math.min(1, Math.max(0, (now - begin) / (until - begin)));
    options.onProgress?.({ rate, done, isWarmUp: now < from, inFlight: loop.inFlight, ...tally.glance() });
  });
  const ended = loop.run((start) => {
    from = after(start, warmup);
    until = after(from, duration);
    tally.begin({ from, until });
    measuring.set(from);
    over.set(until);
  });
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted === true) stop();
  await ended;
  signal?.removeEventListener("abort", stop);
  watching.stop();
  measuring.clear();
  over.clear();
  lag.end();
  const seconds = Math.max(0, Math.min(stoppedAt ?? until, until) - from) / 1e6;
  return reportOf({ totals: tally.totals(), lag, options, seconds, interrupted: stoppedAt !== undefined });
}

/** Interval of progress reports, a fifth of a second: people read them. */
const WATCH_EVERY = 200_000 as Micros;

function reportOf({
  totals,
  lag,
  options,
  seconds,
  interrupted,
}: {
  readonly totals: Totals;
  readonly lag: OwnLag;
  readonly options: TrialOptions;
  readonly seconds: number;
  readonly interrupted: boolean;
}): TrialReport {
  const { rate, seed, streams, target } = options;
  const slo = streams.reduce((least, stream) => Math.min(least, stream.slo), Infinity) as Micros;
  const worst = worstModelOf(totals);
  return {
    ...{ rateRps: rate, seed, seconds },
    ...totals,
    ...{ worstModel: worst.model, worstModelBadRate: worst.badRate, isGood: worst.badRate <= BAD_RATE_MAX },
    client: lag.report({ unsent: totals.unsent, held: target.held, slo }),
    interrupted,
  };
}

/** All applications of a model together. */
function worstModelOf({ streams }: Totals): { readonly model: string; readonly badRate: number } {
  const models = Map.groupBy(streams, ({ model }) => model);
  let worst = { model: streams[0]?.model ?? "", badRate: 0 };
  for (const [model, of] of models) {
    const { badRate } = addUp(of);
    if (badRate > worst.badRate) worst = { model, badRate };
  }
  return worst;
}
