export type * from "./scenario.ts";
export type * from "./result.ts";
export type * from "./simulated-cluster.ts";
export type { StreamResult } from "./metrics.ts";
export * from "./policies.ts";
export * from "./run.ts";
export * from "./tutti-cluster.ts";
export * from "./workload.ts";
