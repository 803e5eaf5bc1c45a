/**
 * FractionModel: a model's rates and batches on a part of an accelerator (gpulet §3; docs/algorithms.md, D1). Times in
 * ms, rates in requests per ms, sizes in percent.
 */
import { atMost } from "../packing/stream.ts";

export interface FractionModel {
  /** Ties go to the smaller one. */
  readonly id: number;
  readonly slo: number;
  readonly rate: number;
  readonly batchMax: number;
  /** L(b, p) in ms. */
  latency(batchSize: number, size: number): number;
  /** Alone and at full size, 0 … 1: utilisation of the shared cache, and of the memory bandwidth. */
  readonly cacheUse: number;
  readonly bandwidthUse: number;
}

/** P: sizes in percent; the last is a whole accelerator. */
export const SIZES: readonly number[] = [20, 40, 50, 60, 80, 100];
export const WHOLE = 100;

/** A batch and the cycle in which it gathers. */
export interface Cycle {
  readonly batchSize: number;
  readonly dutyCycle: number;
}

/** T(p) and B(p) with latencies longer by `factor`; undefined where even one request takes more than half the SLO. */
export function throughputAt(
  model: FractionModel,
  size: number,
  factor = 1,
): { rate: number; batchSize: number } | undefined {
  let [rate, batchSize] = [0, 0];
  for (let b = 1; b <= model.batchMax; b++) {
    const latency = model.latency(b, size) * factor;
    if (!atMost(2 * latency, model.slo) || b / latency < rate) continue;
    [rate, batchSize] = [b / latency, b];
  }
  return batchSize === 0 ? undefined : { rate, batchSize };
}

/** resP(p, r): C2 on a part of an accelerator. */
export function residualAt(model: FractionModel, size: number, rate: number, factor = 1): Cycle | undefined {
  for (let b = model.batchMax; b >= 1; b--) {
    const latency = model.latency(b, size) * factor;
    if (atMost(latency + b / rate, model.slo) && atMost(latency, b / rate))
      return { batchSize: b, dutyCycle: b / rate };
  }
  const alone = model.latency(1, size) * factor;
  const dutyCycle = model.slo - alone;
  return atMost(alone, dutyCycle) && dutyCycle * rate <= 1 + 1e-9 ? { batchSize: 1, dutyCycle } : undefined;
}

/** p_eff: of the points (p, T(p)) the one farthest above the chord from the first to the last. */
export function kneeOf(model: FractionModel, sizes = SIZES): number {
  const rates = sizes.map((size) => throughputAt(model, size)?.rate ?? 0);
  const [first, last] = [sizes[0]!, sizes.at(-1)!];
  let [knee, farthest] = [WHOLE, 1e-9];
  for (const [i, size] of sizes.entries()) {
    const chord = rates[0]! + ((size - first) / (last - first)) * (rates.at(-1)! - rates[0]!);
    if (rates[i]! - chord <= farthest) continue;
    [knee, farthest] = [size, rates[i]! - chord];
  }
  return knee;
}

/** p_req(r): the least size that serves a rate; Infinity where none does. */
export function requiredSize(model: FractionModel, rate: number, sizes = SIZES): number {
  for (const size of sizes) {
    if (residualAt(model, size, rate) !== undefined) return size;
    if ((throughputAt(model, size)?.rate ?? 0) >= rate * (1 - 1e-9)) return size;
  }
  return Infinity;
}
