export * from "./inline-steps.ts";
export * from "./run-step.ts";
export * from "./step-function.ts";
export * from "./step-tensors.ts";
export * from "./steps.ts";
