import type { LatencyTable } from "@tutti/profile";
import type { Micros } from "@tutti/units";

/**
 * Latency L(b, p) on a part of an emulated accelerator with known l(b) (docs/algorithms.md, D6). What a batch costs
 * whatever its size stays the same; each item's share of the rest takes 1/p as long, unless the batch leaves so much of
 * the whole accelerator idle that the part is enough. Item and fixed cost are read from the larger half of the batches,
 * which fill it: a table that begins flat is one of small batches that don't.
 *
 * @param part - in percent
 */
export function latencyOnPart(table: LatencyTable, batchSize: number, part: number): Micros {
  const { batchSizeMax: most } = table;
  const full = table.latency(most);
  const middle = Math.ceil(most / 2);
  const step = most > 1 ? (full - table.latency(middle)) / (most - middle) : full;
  const perItem = Math.min(step, full / most);
  const fixed = full - perItem * most;
  const filled = fixed + (perItem * batchSize * 100) / part;
  return Math.max(table.latency(batchSize), Math.ceil(filled - 1e-6)) as Micros;
}
