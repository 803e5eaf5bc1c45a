export { CLASSES_MAX, PRIORITY_FLOOR, type ClassShare, type ShareRules } from "./admission/fair-shares.ts";
export { dealByPriority, waterLevel } from "./admission/max-min.ts";
export { chooseBatch, type Gathering } from "./batch-choice.ts";
export * from "./cluster.ts";
export * from "./messages.ts";
export * from "./model-thread.ts";
export * from "./policy.ts";
export * from "./rank-thread.ts";
export { sloClass } from "./target-book.ts";
