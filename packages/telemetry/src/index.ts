export * from "./telemetry.ts";
