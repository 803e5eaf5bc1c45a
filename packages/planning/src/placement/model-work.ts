import { type LatencyTable, targetBatch } from "@tutti/profile";
import type { Micros } from "@tutti/units";

export interface WorkedModel {
  /** Latencies: `profile` (typical runs, for planning) says how large batches may be, `mean` how long they take. */
  readonly profile: LatencyTable;
  readonly mean: LatencyTable;
  readonly slo: Micros;
  /** Requests per second. */
  readonly rate: number;
}

/** Parts of an SLO that are neither waiting nor running: control messages, pulls, the answer. */
const CTRL = 1_000 as Micros;
const RESPOND = 300 as Micros;

/** Accelerator time per request in ms, in batches of b*(λ) (docs/algorithms.md, A7). */
export function workPerRequest({ profile, mean, slo, rate }: WorkedModel): number {
  const perMicro = Math.max(rate, Number.MIN_VALUE) / 1e6;
  const batchSize = targetBatch({ profile, slo, rate: perMicro, ctrl: CTRL, perItem: 0 as Micros, respond: RESPOND });
  const size = Math.min(batchSize, mean.batchSizeMax);
  return mean.latency(size) / size / 1_000;
}

/** Work by model; where it isn't measured yet, that of as many requests of the others; their rates where none is. */
export function worksOf(models: readonly { readonly rate: number; readonly work: number }[]): number[] {
  const known = models.filter(({ work }) => work > 0);
  const work = known.reduce((sum, one) => sum + one.work, 0);
  const mean = work > 0 ? work / known.reduce((sum, { rate }) => sum + rate, 0) : 1;
  return models.map((one) => (one.work > 0 ? one.work : mean * one.rate));
}
