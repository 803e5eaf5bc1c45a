import { type BatchCosts, type BatchSample, fitBatchCosts, paperForm } from "@tutti/dynamic";
import type { BatchCostPoint } from "@tutti/protocol";

/**
 * Fewest batches of one size that its own line is fitted to. Also the fewest batches of all sizes that the paper's form
 * is fitted to, which serves the other sizes.
 */
const FITTED_FROM = 8;

/**
 * Batch costs over the time that the longest member takes alone (docs/algorithms.md, B3). Sizes with enough batches
 * have their own line; the others have c0 + c1·k·l, fitted to all batches. Until there are enough batches, the latency
 * table says how many times longer a batch takes than one request.
 *
 * @param table - l(b), in µs
 */
export function batchCostPoints(
  sizes: readonly number[],
  samples: readonly BatchSample[],
  table: (batchSize: number) => number,
): BatchCostPoint[] {
  const bySize = new Map<number, BatchSample[]>();
  for (const sample of samples) bySize.set(sample.batchSize, [...(bySize.get(sample.batchSize) ?? []), sample]);
  const enough = [...bySize.values()].filter((own) => own.length >= FITTED_FROM).flat();
  const fitted = fitBatchCosts(enough);
  const general = samples.length >= FITTED_FROM ? paperForm(samples) : undefined;
  return sizes.map((batchSize) => {
    if (batchSize === 1) return { batchSize, fixed: 0, slope: 1 };
    const isFitted = (bySize.get(batchSize)?.length ?? 0) >= FITTED_FROM;
    const line = (isFitted ? fitted : general)?.(batchSize);
    // A falling line is noise.
    if (line !== undefined && line.slope > 0) return { batchSize, ...line };
    // No batch takes longer than its members one after the other.
    return { batchSize, fixed: 0, slope: Math.min(batchSize, Math.max(1, table(batchSize) / table(1))) };
  });
}

/**
 * Interpolates batch costs. They are linear between the sizes of `points`, and outside of them those of the nearest
 * size; a batch of one takes as long as its request.
 */
export function costsOf(points: readonly BatchCostPoint[]): BatchCosts {
  const known = points.some(({ batchSize }) => batchSize === 1)
    ? points
    : [{ batchSize: 1, fixed: 0, slope: 1 }, ...points];
  return (batchSize) => {
    const next = known.findIndex((point) => point.batchSize >= batchSize);
    const above = known[next] ?? known.at(-1)!;
    const below = known[next - 1];
    if (next <= 0 || below === undefined || above.batchSize === batchSize) return above;
    const part = (batchSize - below.batchSize) / (above.batchSize - below.batchSize);
    return {
      fixed: below.fixed + part * (above.fixed - below.fixed),
      slope: below.slope + part * (above.slope - below.slope),
    };
  };
}
