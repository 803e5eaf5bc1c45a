import { type BatchCosts, type BatchSample, fitBatchCosts, paperForm } from "@tutti/dynamic";
import type { BatchCostPoint } from "@tutti/protocol";

/**
 * Batches of one size from which its line is fitted, at least; and batches of all sizes for the form that serves the
 * others.
 */
const FITTED_FROM = 8;

/**
 * What batches take of what their longest member takes alone (docs/algorithms.md, B3): fitted where enough batches are
 * known, c0 + c1·k·l fitted to all of them for other sizes. Before that the latency table is all there is: it tells how
 * many times longer a batch takes than one request.
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
    // A line that falls is noise.
    if (line !== undefined && line.slope > 0) return { batchSize, ...line };
    // No batch takes longer than its members one after the other.
    return { batchSize, fixed: 0, slope: Math.min(batchSize, Math.max(1, table(batchSize) / table(1))) };
  });
}

/**
 * Between sizes that are told along a line, outside of them as the nearest one says; a batch of one takes what its
 * request takes.
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
