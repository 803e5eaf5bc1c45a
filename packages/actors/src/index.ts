export * from "./catalog.ts";
export * from "./ports.ts";
export { createBatcher, type BatcherConfig } from "./batcher/batcher.ts";
export { createExecutor, type ExecutorConfig, type ExecutorPorts } from "./executor/executor.ts";
export { randomRow } from "./random-row.ts";
export { createIngress, type IngressConfig, type IngressPorts } from "./ingress/ingress.ts";
export { createProfiler, type ProfilerConfig } from "./profiler/profiler.ts";
export { createRanker, type RankerConfig } from "./ranker/ranker.ts";
export { Station, type StationOptions } from "./station.ts";
