/** Estimators of run times and delays, for a program that runs them without their actors. */
export { type MeasuredDelays, PullCost } from "./batcher/pull-cost.ts";
export { LiveProfiles } from "./profiler/live-profiles.ts";
export { reserve } from "./runtime/reserve.ts";
