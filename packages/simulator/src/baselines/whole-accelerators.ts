/**
 * Batch-oblivious placement: accelerators in proportion to rate over best throughput on one, none shared that needn't
 * be, whatever the duty cycles. docs/algorithms.md, C8; Nexus, §7.2 and §7.3.1, turns squishy packing off for it. If
 * there are more loads than accelerators, those that need less than one accelerator share some, each of them again on
 * one.
 */
import type { Load } from "./nexus-plan.ts";
import { largestWithin } from "./gathering.ts";
import { balance } from "./static-share.ts";

/** A group of accelerators, and the loads that all of them run. */
export interface AcceleratorGroup {
  /** Indices in the input. */
  readonly loads: readonly number[];
  readonly gpus: number;
}

/** The largest batch of which the limit allows two, at least 1, whatever else runs on the accelerator. */
export const saturatedBatch = ({ profile, limit }: Pick<Load, "profile" | "limit">): number =>
  Math.max(1, largestWithin(profile, limit / 2));

/** @returns groups whose accelerators sum to `gpus`; every load is in one */
export function wholeAccelerators(loads: readonly Load[], gpus: number): AcceleratorGroup[] {
  const needs = loads.map((load) => {
    const batchSize = saturatedBatch(load);
    return (load.rate * load.profile.latency(batchSize)) / batchSize;
  });
  const total = needs.reduce((sum, need) => sum + need, 0);
  const ideal = needs.map((need) => (total > 0 ? need / total : 1 / loads.length) * gpus);
  const places = loads.map((_, i) => i);
  const isCrowded = loads.length > gpus;
  const large = places.filter((i) => !isCrowded || ideal[i]! >= 1);
  const small = places.filter((i) => isCrowded && ideal[i]! < 1);
  const parts = large.map((i) => ideal[i]!);
  if (small.length > 0) parts.push(small.reduce((sum, i) => sum + ideal[i]!, 0));
  const counts = parts.map((part) => Math.min(gpus, Math.max(1, Math.round(part))));
  balance(counts, parts, gpus);
  const groups = large.map((load, i): AcceleratorGroup => ({ loads: [load], gpus: counts[i]! }));
  return small.length === 0 ? groups : [...groups, ...shareOut(small, ideal, counts.at(-1)!)];
}

/** Deals loads out: the heaviest first, each onto the accelerator that carries least. */
function shareOut(small: readonly number[], ideal: readonly number[], gpus: number): AcceleratorGroup[] {
  const carried = Array.from({ length: Math.min(gpus, small.length) }, () => ({ loads: [] as number[], sum: 0 }));
  for (const load of small.toSorted((a, b) => ideal[b]! - ideal[a]! || a - b)) {
    const least = carried.reduce((best, one) => (one.sum < best.sum ? one : best));
    least.loads.push(load);
    least.sum += ideal[load]! + 1e-9;
  }
  const spare = gpus - carried.length;
  return carried.map(({ loads }, i) => ({ loads, gpus: i === 0 ? 1 + spare : 1 }));
}
