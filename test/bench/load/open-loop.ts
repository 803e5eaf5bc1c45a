/**
 * Open-loop load on one model, by the generator of `tutti bench`, with the report that the repository's benchmarks
 * read.
 */
import { type LoadStream, NatsTarget, runTrial } from "@tutti/bench";
import type { Bus } from "@tutti/ports/bus";
import type { Clock } from "@tutti/ports/clock";
import { type Micros, formatDuration, micros } from "@tutti/units";

export interface LoadOptions {
  readonly model: string;
  readonly app: string;
  /** Requests a second. */
  readonly rate: number;
  readonly arrivals: "poisson" | "uniform";
  readonly duration: Micros;
  /** Time at the beginning whose requests are sent and not counted. */
  readonly warmup: Micros;
  readonly slo: Micros;
  readonly seed: number;
  /** A binary request, sent unchanged. */
  readonly payload: Uint8Array;
  /** Time after the SLO beyond which answers count as lost. */
  readonly grace: Micros;
}

export interface LoadReport {
  readonly offered: number;
  readonly offeredRps: number;
  readonly inTime: number;
  readonly late: number;
  readonly lost: number;
  /** Answers to requests that had one already: T1 allows none. */
  readonly repeated: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly inTimeShare: number;
  readonly latencyMs: {
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly p999: number;
    readonly max: number;
  };
  /** The generator's own lag: one that can't keep its pace measures itself. */
  readonly sendLagMs: { readonly p50: number; readonly p99: number };
}

/**
 * Offers the load. Latency counts from the moment a request was meant to leave. The precise alarm paces it, since a
 * generator that spins would take a core from the system that it measures.
 */
export async function offerLoad(
  bus: Bus,
  clock: Clock,
  options: LoadOptions,
  onProgress: (text: string) => void = () => undefined,
): Promise<LoadReport> {
  const { model, app, slo, payload, arrivals, warmup, duration, grace, rate, seed } = options;
  const stream: LoadStream = { model, app, slo, weight: 1 };
  const target = new NatsTarget([{ bus, model, app, payload }]);
  let saidAt = clock.now();
  const trial = await runTrial({
    ...{ clock, target, streams: [stream], arrivals: { process: arrivals }, rate, seed, warmup, duration, grace },
    utilization: () => 0, // the benchmarks measure processor time by process
    onProgress: ({ settled, inFlight, done }) => {
      if (clock.now() - saidAt < 1e6) return;
      saidAt = clock.now();
      const left = micros(Math.round((1 - done) * (warmup + duration)));
      onProgress(`${settled} answered, ${inFlight} under way, ${formatDuration(left)} to go`);
    },
  });
  target.close();
  const { offered, offeredRps, good, late, lost, unsent, repeated, refused, latencyMs, client } = trial;
  return {
    ...{ offered, offeredRps, inTime: good, late, lost: lost + unsent, repeated, refused },
    inTimeShare: good / Math.max(1, offered),
    latencyMs: {
      ...{ p50: latencyMs.p50 ?? NaN, p90: latencyMs.p90 ?? NaN, p99: latencyMs.p99 ?? NaN },
      ...{ p999: latencyMs.p999 ?? NaN, max: latencyMs.max ?? NaN },
    },
    sendLagMs: { p50: client.sendLagMs.p50 ?? NaN, p99: client.sendLagMs.p99 ?? NaN },
  };
}
