export * from "./node-clock.ts";
export type { LatenessReport } from "./lateness.ts";
export { type TimeSources, nodeTimeSources } from "./wall-offset.ts";
