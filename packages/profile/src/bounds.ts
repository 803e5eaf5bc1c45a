/**
 * Capacity of a profile: bounds on batch size and rate, the target batch, advice on scaling.
 * docs/algorithms.md, A7 and A8. Rates are requests per µs; `perSecond` is for display.
 */
import { assert, type Micros } from "@tutti/units";
import type { LatencyTable } from "./latency-table.ts";
import { ceilE, floorE } from "./rounding.ts";

/** Converts a rate from requests per µs to requests per second. */
export const perSecond = (perMicro: number): number => perMicro * 1e6;

/** The batch size and rate (requests per µs) of N executors; batch size 0 where even one request doesn't fit. */
export interface Capacity {
  readonly batchSize: number;
  readonly perMicro: number;
}

/** N executors that start one after the other, evenly spaced: the worst wait is l(b)/N, so (1+1/N)·l(b) ≤ SLO. */
export function staggeredBatch(o: { profile: LatencyTable; slo: Micros; executors: number }): Capacity {
  const batchSize = bestBatch(o.profile, (l) => (1 + 1 / o.executors) * l <= slackOver(o.slo));
  return capacity(o.profile, batchSize, o.executors);
}

/** N executors that aren't coordinated: a request may wait for a whole batch, so 2·l(b) ≤ SLO. */
export function uncoordinatedBatch(o: { profile: LatencyTable; slo: Micros; executors: number }): Capacity {
  return capacity(
    o.profile,
    bestBatch(o.profile, (l) => 2 * l <= slackOver(o.slo)),
    o.executors,
  );
}

export interface TargetBatchOptions {
  readonly profile: LatencyTable;
  /** SLO of the request at the head, before `respond` is subtracted. */
  readonly slo: Micros;
  /** Arrival rate of the whole model, requests per µs. */
  readonly rate: number;
  readonly ctrl: Micros;
  readonly perItem: Micros;
  readonly respond: Micros;
}

/** b*(λ): the batch size worth gathering at this rate; at least 1. */
export function targetBatch({ profile, slo, rate, ctrl, perItem, respond }: TargetBatchOptions): number {
  const budget = slackOver(slo - ctrl - respond);
  const shared = bestBatch(profile, (l, b) => (1 + 1 / Math.max(1, (rate * l) / b)) * l <= budget - perItem * b);
  if (shared > 0 && (rate * profile.latency(shared)) / shared > 1) return shared;
  // One executor is enough: the next batch gathers while the one before it runs.
  return Math.max(
    1,
    bestBatch(profile, (l, b) => l + b / rate + perItem * b <= budget),
  );
}

export type ScalingAdvice =
  | { readonly kind: "keep" }
  | { readonly kind: "add"; readonly executors: number }
  | { readonly kind: "release"; readonly executors: number };

export interface ScalingWindow {
  readonly executors: number;
  readonly bad: number;
  readonly total: number;
  /** Idle executor time, as a share of executors × window. */
  readonly idleShare: number;
  /** Bad rate above which more executors are advised. */
  readonly badRateMax?: number;
  /** Idle share above which executors are offered for release, highest ids first. */
  readonly idleShareMax?: number;
}

/** Advice on scaling (A8): add, release or keep. It never releases the last executor. */
export function scalingAdvice(window: ScalingWindow): ScalingAdvice {
  const { executors, bad, total, idleShare } = window;
  assert(bad <= total && idleShare <= 1 + 1e-9, `${bad} of ${total} bad, ${idleShare} idle`);
  const badRate = total === 0 ? 0 : bad / total;
  if (badRate > (window.badRateMax ?? 0.01)) {
    // A bad rate of 1 doesn't say how much capacity is missing: double it.
    const missing = badRate < 1 ? (executors * badRate) / (1 - badRate) : executors;
    return { kind: "add", executors: Math.max(1, ceilE(missing)) };
  }
  if (idleShare > (window.idleShareMax ?? 0.05)) {
    const spare = Math.min(executors - 1, floorE(executors * idleShare));
    if (spare > 0) return { kind: "release", executors: spare };
  }
  return { kind: "keep" };
}

const capacity = (profile: LatencyTable, batchSize: number, executors: number): Capacity => ({
  batchSize,
  perMicro: batchSize === 0 ? 0 : (executors * batchSize) / profile.latency(batchSize),
});

const slackOver = (limit: number): number => limit + 1e-9 * Math.max(1, Math.abs(limit));

/**
 * The admissible size of largest throughput, the larger on a tie; 0 if none. Where b/l(b) never falls, as it should,
 * that is the largest admissible size; where a profile violates this, section 0 asks for the size of largest
 * throughput.
 *
 * Every bound above limits a quantity that never falls with b (l + min(l, b/λ) for the target batch). So the admissible
 * sizes are the first ones, and the search ends at the first inadmissible one.
 */
function bestBatch(profile: LatencyTable, isAdmissible: (latency: number, batchSize: number) => boolean): number {
  let best = 0;
  let most = 0;
  for (let b = 1; b <= profile.batchSizeMax; b++) {
    const l = profile.byBatchSize[b]!;
    if (!isAdmissible(l, b)) break;
    const throughput = b / l;
    if (throughput < most * (1 - 1e-12)) continue;
    best = b;
    most = throughput;
  }
  return best;
}
