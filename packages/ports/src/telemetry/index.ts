export * from "./no-op.ts";
export * from "./recording.ts";
export * from "./telemetry.ts";
