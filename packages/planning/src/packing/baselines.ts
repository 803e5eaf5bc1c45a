/** The baseline of packing: executors by throughput alone. docs/algorithms.md, C8. */
import { type Stream, saturated } from "./stream.ts";

/** C8: executors in proportion to R/T, each stream at least one, whatever the duty cycles. @returns by stream */
export function batchOblivious(streams: readonly Stream[], executors: number): number[] {
  const needs = streams.map((stream) => stream.rate / (saturated(stream)?.rate ?? Infinity));
  const total = needs.reduce((sum, need) => sum + need, 0);
  return needs.map((need) => Math.max(1, total === 0 ? 1 : Math.round((executors * need) / total)));
}
