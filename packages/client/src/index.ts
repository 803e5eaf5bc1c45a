/** Everything that the published package exports: a publisher needs no more. `registries.ts` is for operators. */
export { type ErrorCode, TuttiError, type TuttiErrorOptions } from "@tutti/protocol";
export * from "./answer.ts";
export * from "./app-bus.ts";
export * from "./client.ts";
export * from "./connect.ts";
export * from "./jobs.ts";
export * from "./tensors.ts";
