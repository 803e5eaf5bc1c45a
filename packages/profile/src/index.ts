export * from "./arrival-rate.ts";
export * from "./bounds.ts";
export * from "./delay-estimator.ts";
export * from "./latency-observer.ts";
export * from "./latency-table.ts";
export * from "./log-histogram.ts";
export * from "./rounding.ts";
