/**
 * Variants of one model as one stream: a common prefix over the whole batch, then each variant's suffix over its rows
 * (docs/algorithms.md, C7).
 */
import { ceilE } from "@tutti/profile";
import { assert } from "@tutti/units";
import type { BatchLatency } from "./stream.ts";

export interface SharedPrefix {
  readonly prefix: BatchLatency;
  /** One suffix for each variant. */
  readonly suffixes: readonly BatchLatency[];
  /** Rate of each variant, in any unit. */
  readonly rates: readonly number[];
}

/**
 * Latency of the combined stream: l(b) = l_pre(b) + Σ l_suf,j(b_j), with b_j in proportion to the rates, rounded up. No
 * batch of b costs more, since it has no more variants than all.
 *
 * Batch sizes are the prefix'.
 */
export function sharedLatency({ prefix, suffixes, rates }: SharedPrefix): BatchLatency {
  assert(suffixes.length === rates.length && suffixes.length > 0, "a rate for each variant");
  const total = rates.reduce((a, b) => a + b, 0);
  assert(total > 0, "some variant is asked for");
  const latency = (b: number): number =>
    suffixes.reduce((sum, suffix, j) => {
      const own = ceilE((b * rates[j]!) / total);
      return own > 0 ? sum + suffix.latency(own) : sum;
    }, prefix.latency(b));
  return { batchSizes: prefix.batchSizes, latency };
}
