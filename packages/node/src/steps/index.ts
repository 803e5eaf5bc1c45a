export * from "./worker-steps.ts";
