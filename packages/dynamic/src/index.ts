export * from "./batch-costs.ts";
export * from "./feasible-queues.ts";
export * from "./histogram.ts";
export * from "./latency-curve.ts";
export * from "./latency-model.ts";
export * from "./priority/kinetic-tournament.ts";
export type * from "./priority/priority-structure.ts";
export * from "./priority/scan.ts";
