export { chooseBatch, type Gathering } from "./batch-choice.ts";
export * from "./cluster.ts";
export * from "./messages.ts";
export * from "./model-thread.ts";
export * from "./policy.ts";
export * from "./rank-thread.ts";
export { sloClass } from "./target-book.ts";
