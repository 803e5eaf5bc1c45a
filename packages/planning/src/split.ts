/** Latency splits and nothing else: every ingress that serves pipelines loads it. */
export * from "./latency-split/query.ts";
export * from "./latency-split/split.ts";
export type { BatchLatency } from "./packing/stream.ts";
