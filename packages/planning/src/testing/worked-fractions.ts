/** The nine models of docs/algorithms.md, D6, for tests and benchmarks. */
import { type FractionModel, type Interference, SIZES } from "../index.ts";

/** L(b,p) = β + α·b/min(p/100, min(1, σ·b)), times in ms. */
export const D6_PROFILES = [
  { name: "le", alpha: 0.05, beta: 0.5, sigma: 0.05, slo: 5, u: 0.1, v: 0.1 },
  { name: "be", alpha: 0.25, beta: 3, sigma: 0.1, slo: 22, u: 0.18, v: 0.34 },
  { name: "nas", alpha: 0.8, beta: 5, sigma: 0.05, slo: 62, u: 0.25, v: 0.35 },
  { name: "mob", alpha: 0.8, beta: 6, sigma: 0.06, slo: 64, u: 0.28, v: 0.4 },
  { name: "goo", alpha: 0.8, beta: 7, sigma: 0.05, slo: 66, u: 0.22, v: 0.3 },
  { name: "res", alpha: 1.5, beta: 6, sigma: 0.08, slo: 108, u: 0.3, v: 0.45 },
  { name: "vgg", alpha: 2.1, beta: 4, sigma: 0.2, slo: 142, u: 0.45, v: 0.6 },
  { name: "ssd", alpha: 2.9, beta: 8, sigma: 0.06, slo: 202, u: 0.35, v: 0.5 },
  { name: "den", alpha: 2.9, beta: 8, sigma: 0.04, slo: 202, u: 0.25, v: 0.57 },
] as const;
export const D6_INTERFERENCE: Interference = [0.2, 0.5, 0.3, 0.2, 0.9];
export const D6_BATCH_MAX = 32;

const LATENCIES = D6_PROFILES.map(({ alpha, beta, sigma }) => {
  const bySize = SIZES.map((size) =>
    Float64Array.from(
      { length: D6_BATCH_MAX + 1 },
      (_, b) => beta + (alpha * b) / Math.min(size / 100, Math.min(1, sigma * b)),
    ),
  );
  return (b: number, size: number): number => bySize[SIZES.indexOf(size)]![b]!;
});

/** @param id - its place in D6_PROFILES */
export function d6Model(id: number, perSecond: number): FractionModel {
  const { slo, u, v } = D6_PROFILES[id]!;
  const uses = { cacheUse: u, bandwidthUse: v };
  return { id, slo, rate: perSecond / 1000, batchMax: D6_BATCH_MAX, latency: LATENCIES[id]!, ...uses };
}
