/**
 * l(b), the latency of a batch of b, for b = 1 … batchSizeMax: docs/algorithms.md, section 0.
 *
 *   TABLE-1. Whole microseconds, rounded up: a latency rounded down makes a deadline that can't be met look possible.
 *   TABLE-2. Never falling: l(b) = max(l(b−1), raw(b)). Above batchSizeMax it is +Infinity, so no plan goes there.
 */
import { assert, type Micros } from "@tutti/units";
import { ceilE } from "./rounding.ts";

export interface LatencyPoint {
  readonly batchSize: number;
  readonly latency: Micros;
}

export interface FromPointsOptions {
  /** Between two measured sizes: the straight line (default), or the next larger measured size, which is what runs
   *  when only some sizes are compiled. */
  readonly between?: "interpolate" | "pad-up";
  /** At most the largest measured size (nothing is extrapolated), which is also the default. */
  readonly batchSizeMax?: number;
}

export const BATCH_SIZE_LIMIT = 65_536;

export class LatencyTable {
  readonly batchSizeMax: number;
  /**
   * µs per item and µs per batch: least squares on the relative error. It is a summary: plans use `latency`, and only
   * the decision whether waiting can pay uses the summary.
   */
  readonly alpha: number;
  readonly beta: number;
  /** l(b) at index b, +Infinity at index 0 and batchSizeMax + 1. Read-only; exposed for the inner loop of planning. */
  readonly byBatchSize: Float64Array;

  private constructor(raw: Float64Array, line?: { alpha: number; beta: number }) {
    const batchSizeMax = raw.length - 1;
    assert(batchSizeMax >= 1 && batchSizeMax <= BATCH_SIZE_LIMIT, `a profile up to batch size ${batchSizeMax}`);
    this.batchSizeMax = batchSizeMax;
    this.byBatchSize = new Float64Array(batchSizeMax + 2).fill(Infinity);
    let least = 0;
    for (let b = 1; b <= batchSizeMax; b++) {
      assert(raw[b]! > 0 && raw[b]! < Infinity, `a batch of ${b} cannot take ${raw[b]} µs`);
      least = Math.max(least, ceilE(raw[b]!));
      this.byBatchSize[b] = least;
    }
    const { alpha, beta } = line ?? fitLine(this.byBatchSize, batchSizeMax);
    this.alpha = alpha;
    this.beta = beta;
  }

  /** A table from measured points in any order. Below the smallest measured size its latency holds. */
  static fromPoints(points: readonly LatencyPoint[], options: FromPointsOptions = {}): LatencyTable {
    const sorted = points.toSorted((a, b) => a.batchSize - b.batchSize);
    assert(sorted.length > 0, "a profile without points");
    for (const [i, { batchSize }] of sorted.entries()) {
      assert(Number.isInteger(batchSize) && batchSize >= 1, `batch size ${batchSize} in a profile`);
      assert(i === 0 || batchSize > sorted[i - 1]!.batchSize, `batch size ${batchSize} twice in a profile`);
    }
    const largest = sorted.at(-1)!.batchSize;
    const raw = new Float64Array(Math.min(largest, options.batchSizeMax ?? largest) + 1);
    let next = 0; // the first point at b or above it
    for (let b = 1; b < raw.length; b++) {
      while (sorted[next]!.batchSize < b) next++;
      const above = sorted[next]!;
      const below = sorted[next - 1];
      if (below === undefined || above.batchSize === b || options.between === "pad-up") raw[b] = above.latency;
      else {
        const share = (b - below.batchSize) / (above.batchSize - below.batchSize);
        raw[b] = below.latency + share * (above.latency - below.latency);
      }
    }
    return new LatencyTable(raw);
  }

  /** A table with l(b) = alpha·b + beta: µs per item, µs per batch. */
  static affine(line: { alpha: number; beta: number; batchSizeMax: number }): LatencyTable {
    const raw = Float64Array.from({ length: line.batchSizeMax + 1 }, (_, b) => line.alpha * b + line.beta);
    return new LatencyTable(raw, line);
  }

  /** The slowest latency at every size, up to the smallest batchSizeMax: for a pool of several executor types. */
  static slowest(tables: readonly LatencyTable[]): LatencyTable {
    assert(tables.length > 0, "the slowest of no profiles");
    const batchSizeMax = Math.min(...tables.map((table) => table.batchSizeMax));
    const at = (b: number) => Math.max(...tables.map((table) => table.latency(b)));
    return new LatencyTable(Float64Array.from({ length: batchSizeMax + 1 }, (_, b) => at(b)));
  }

  /** l(batchSize) for 1 ≤ batchSize; +Infinity above batchSizeMax. */
  latency(batchSize: number): Micros {
    return (batchSize > this.batchSizeMax ? Infinity : this.byBatchSize[batchSize]!) as Micros;
  }

  /** Every size with its latency: `fromPoints(table.toPoints())` is the same table. */
  toPoints(): { batchSize: number; latency: Micros }[] {
    return Array.from({ length: this.batchSizeMax }, (_, i) => ({ batchSize: i + 1, latency: this.latency(i + 1) }));
  }
}

/** Minimises Σ ((alpha·b + beta − l(b)) / l(b))²; both at least 0. */
function fitLine(table: Float64Array, batchSizeMax: number): { alpha: number; beta: number } {
  let [w, wb, wbb, wl, wbl] = [0, 0, 0, 0, 0];
  for (let b = 1; b <= batchSizeMax; b++) {
    const l = table[b]!;
    const weight = 1 / (l * l);
    w += weight;
    wb += weight * b;
    wbb += weight * b * b;
    wl += weight * l;
    wbl += weight * b * l;
  }
  const determinant = w * wbb - wb * wb;
  if (batchSizeMax === 1 || determinant <= 0) return { alpha: wbl / wbb, beta: 0 };
  const alpha = (w * wbl - wb * wl) / determinant;
  const beta = (wl - alpha * wb) / w;
  if (beta < 0) return { alpha: wbl / wbb, beta: 0 }; // the best line through the origin
  return alpha < 0 ? { alpha: 0, beta: wl / w } : { alpha, beta };
}
