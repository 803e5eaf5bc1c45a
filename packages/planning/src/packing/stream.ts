/**
 * Stream: one model at one latency bound and rate, and the batches of a node that serves it alone (Nexus §6.1;
 * docs/algorithms.md, C1 and C2). Times in ms, rates in requests per ms.
 */
import { ceilE } from "@tutti/profile";

export interface BatchLatency {
  /** Sizes that may be planned, ascending. */
  readonly batchSizes: readonly number[];
  /** l(b) in ms, also between the sizes; Infinity beyond the largest. */
  latency(batchSize: number): number;
}

export interface Stream {
  /** Ties go to the smaller id. */
  readonly id: number;
  readonly slo: number;
  readonly rate: number;
  readonly latency: BatchLatency;
  /** Memory of its weights, which stay resident; 0 where left out. */
  readonly memory?: number;
}

/** Slack for comparisons of milliseconds. */
export const SLACK_MS = 1e-6;
export const atMost = (a: number, b: number): boolean => a <= b + SLACK_MS;

/** A batch size with the duty cycle in which it gathers. */
export interface Alone {
  readonly batchSize: number;
  /** d in ms. */
  readonly dutyCycle: number;
  /** l(b)/d. */
  readonly occupancy: number;
}

/**
 * B and T: the batch size of a node that runs nothing else, and its throughput. Undefined where not even one request
 * fits twice into the SLO.
 */
export function saturated({
  latency,
  slo,
}: Pick<Stream, "latency" | "slo">): { batchSize: number; rate: number } | undefined {
  const batchSize = bestBatch(latency, (l) => atMost(2 * l, slo));
  return batchSize === undefined ? undefined : { batchSize, rate: batchSize / latency.latency(batchSize) };
}

/**
 * Residual plan (C2) of a rate below T. Undefined where it needs a node of its own (occupancy above 1), or can't be
 * served at all.
 */
export function residual(stream: Pick<Stream, "latency" | "slo">, rate: number): Alone | undefined {
  const { latency, slo } = stream;
  const batchSize = bestBatch(latency, (l, b) => atMost(l + b / rate, slo));
  if (batchSize === undefined) {
    // The rate is so low that even with one request per cycle a second one would wait too long: the cycle is as long as
    // the SLO allows.
    const dutyCycle = slo - latency.latency(1);
    const occupancy = latency.latency(1) / dutyCycle;
    const isValid = dutyCycle > 0 && atMost(latency.latency(1), dutyCycle) && dutyCycle * rate <= 1 + 1e-9;
    return isValid ? { batchSize: 1, dutyCycle, occupancy } : undefined;
  }
  const dutyCycle = batchSize / rate;
  const occupancy = latency.latency(batchSize) / dutyCycle;
  return occupancy > 1 + 1e-9 ? undefined : { batchSize, dutyCycle, occupancy };
}

/** Size of the batch that gathers in a duty cycle. */
export const batchIn = (dutyCycle: number, rate: number): number => Math.max(1, ceilE(dutyCycle * rate));

/**
 * The admissible size of largest throughput, the larger on a tie (section 0). Where throughput never falls, that is the
 * largest admissible size.
 */
function bestBatch(latency: BatchLatency, isAdmissible: (l: number, b: number) => boolean): number | undefined {
  let best: number | undefined;
  let most = 0;
  for (const b of latency.batchSizes) {
    const l = latency.latency(b);
    if (!isAdmissible(l, b) || b / l < most) continue;
    best = b;
    most = b / l;
  }
  return best;
}
