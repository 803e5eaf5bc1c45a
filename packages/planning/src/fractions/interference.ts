/**
 * How much longer a model takes beside another on the same accelerator (gpulet §4.4; docs/algorithms.md, D2): a line in
 * what both use of the shared cache and of the memory bandwidth, times their sizes, fitted by ordinary least squares.
 */
import { quantile } from "@tutti/profile";
import { assert } from "@tutti/units";
import type { FractionModel } from "./model.ts";

/** c1 … c5. */
export type Interference = readonly [number, number, number, number, number];

export interface Beside {
  readonly model: Pick<FractionModel, "cacheUse" | "bandwidthUse">;
  /** In percent. */
  readonly size: number;
}

/** At least 1. */
export function factorBeside(c: Interference, own: Beside, other: Beside): number {
  const [p1, p2] = [own.size / 100, other.size / 100];
  const line =
    c[0] * own.model.cacheUse * p1 +
    c[1] * other.model.cacheUse * p2 +
    c[2] * own.model.bandwidthUse * p1 +
    c[3] * other.model.bandwidthUse * p2 +
    c[4];
  return Math.max(1, line);
}

/** A measured pair: u1·p1, u2·p2, v1·p1, v2·p2, and the factor. */
export interface InterferenceSample {
  readonly uses: readonly [number, number, number, number];
  readonly factor: number;
}

export interface InterferenceFit {
  readonly coefficients: Interference;
  /** √Σ(ŷ−y)² over the samples of the fit. */
  readonly residualNorm: number;
}

/**
 * By Householder's QR; normal equations would square the condition number. @throws AssertionError for fewer than five
 * independent samples
 */
export function fitInterference(samples: readonly InterferenceSample[]): InterferenceFit {
  const columns = 5;
  assert(samples.length >= columns, `${samples.length} samples for ${columns} coefficients`);
  const a = samples.map(({ uses }) => [...uses, 1]);
  const y = samples.map(({ factor }) => factor);
  for (let k = 0; k < columns; k++) {
    const norm = Math.hypot(...a.slice(k).map((row) => row[k]!));
    assert(norm > 1e-12, "the samples don't tell the coefficients apart");
    const alpha = a[k]![k]! > 0 ? -norm : norm;
    const v = a.map((row, i) => (i < k ? 0 : row[k]! - (i === k ? alpha : 0)));
    const square = v.reduce((sum, value) => sum + value * value, 0);
    const reflect = (read: (i: number) => number, write: (i: number, value: number) => void): void => {
      const dot = v.reduce((sum, value, i) => sum + value * read(i), 0);
      for (let i = k; i < v.length; i++) write(i, read(i) - (2 * dot * v[i]!) / square);
    };
    for (let j = k; j < columns; j++)
      reflect(
        (i) => a[i]![j]!,
        (i, value) => (a[i]![j] = value),
      );
    reflect(
      (i) => y[i]!,
      (i, value) => (y[i] = value),
    );
  }
  const c = new Array<number>(columns).fill(0);
  for (let k = columns - 1; k >= 0; k--) {
    let sum = y[k]!;
    for (let j = k + 1; j < columns; j++) sum -= a[k]![j]! * c[j]!;
    c[k] = sum / a[k]![k]!;
  }
  return { coefficients: c as unknown as Interference, residualNorm: Math.hypot(...y.slice(columns)) };
}

/** Relative errors |ŷ−y|/y of a fit on samples that it has not seen: their 90th and 95th percentiles. */
export function predictionError(c: Interference, samples: readonly InterferenceSample[]): { p90: number; p95: number } {
  const errors = samples
    .map(({ uses, factor }) => {
      const predicted = Math.max(1, uses.reduce((sum, use, i) => sum + use * c[i]!, 0) + c[4]);
      return Math.abs(predicted - factor) / factor;
    })
    .sort((a, b) => a - b);
  return errors.length === 0 ? { p90: 0, p95: 0 } : { p90: quantile(errors, 0.9), p95: quantile(errors, 0.95) };
}
