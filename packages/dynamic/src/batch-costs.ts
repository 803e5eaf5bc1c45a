/**
 * Batch time as a line over the time of its longest request alone: l_B = A_k + s_k · l_max (Orloj §4.2;
 * docs/algorithms.md, B3). In µs.
 */
import { assert } from "@tutti/units";

export interface BatchCost {
  /** A_k, in µs. */
  readonly fixed: number;
  /** s_k. */
  readonly slope: number;
}

export type BatchCosts = (batchSize: number) => BatchCost;

/** A measured batch: `alone` is the time that its longest member takes by itself. Times in µs. */
export interface BatchSample {
  readonly batchSize: number;
  readonly alone: number;
  readonly took: number;
}

/** The paper's form: l_B = c0 + c1 · k · l. */
export const affineCosts =
  (c0: number, c1: number): BatchCosts =>
  (batchSize) => ({ fixed: c0, slope: c1 * batchSize });

/** The same costs, except that a batch of one takes as long as its request. */
export const costsFromOne =
  (costs: BatchCosts): BatchCosts =>
  (batchSize) =>
    batchSize === 1 ? { fixed: 0, slope: 1 } : costs(batchSize);

/**
 * Fits batch costs by least squares. (A_k, s_k) is fitted for each k that was sampled with at least two different
 * times; the other k use the paper's form, fitted to all samples. A batch of one takes as long as its request.
 */
export function fitBatchCosts(samples: readonly BatchSample[]): BatchCosts {
  const bySize = new Map<number, BatchSample[]>();
  for (const sample of samples) {
    const own = bySize.get(sample.batchSize);
    if (own === undefined) bySize.set(sample.batchSize, [sample]);
    else own.push(sample);
  }
  const fitted = new Map<number, BatchCost>();
  for (const [batchSize, own] of bySize) {
    const line = leastSquares(own.map(({ alone, took }) => [alone, took]));
    if (line !== undefined && line.slope > 0) fitted.set(batchSize, line);
  }
  const all = paperForm(samples);
  return costsFromOne((batchSize) => fitted.get(batchSize) ?? all(batchSize));
}

/** c0 and c1 of the paper's form by least squares over k·l. */
export function paperForm(samples: readonly BatchSample[]): BatchCosts {
  const line = leastSquares(samples.map(({ batchSize, alone, took }) => [batchSize * alone, took]));
  // Without samples, or with a single point, assume that batching gains nothing.
  return line === undefined ? (batchSize) => ({ fixed: 0, slope: batchSize }) : affineCosts(line.fixed, line.slope);
}

/**
 * Fits a line; undefined where x does not vary. A fixed part below 0 would let small batches take no time, so it
 * becomes 0.
 */
function leastSquares(points: readonly (readonly [number, number])[]): BatchCost | undefined {
  const count = points.length;
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / count;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / count;
  let varX = 0;
  let cov = 0;
  for (const [x, y] of points) {
    assert(Number.isFinite(x) && Number.isFinite(y), "times are finite");
    varX += (x - meanX) ** 2;
    cov += (x - meanX) * (y - meanY);
  }
  if (count < 2 || varX <= 1e-12 * meanX * meanX) return undefined;
  const slope = cov / varX;
  const fixed = meanY - slope * meanX;
  return fixed >= 0 ? { fixed, slope } : { fixed: 0, slope: meanY / meanX };
}
