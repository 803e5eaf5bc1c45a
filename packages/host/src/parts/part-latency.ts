import type { LatencyTable } from "@tutti/profile";
import type { Micros } from "@tutti/units";

/**
 * Latency L(b, p) on a part of an emulated accelerator with known l(b) (docs/algorithms.md, D6, σ = 1). The cost that
 * doesn't depend on the batch size stays the same, and the rest takes 1/p as long.
 *
 * @param part - in percent
 */
export function latencyOnPart(table: LatencyTable, batchSize: number, part: number): Micros {
  const whole = table.latency(batchSize);
  const [alone, most] = [table.latency(1), table.latency(table.batchSizeMax)];
  const perItem = table.batchSizeMax > 1 ? (most - alone) / (table.batchSizeMax - 1) : alone;
  const fixed = Math.max(0, alone - perItem);
  return Math.ceil(fixed + ((whole - fixed) * 100) / part - 1e-6) as Micros;
}
