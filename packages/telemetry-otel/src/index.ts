export { CLOSE_MS, type OtelTelemetry, type TelemetryOptions, createTelemetry } from "./create-telemetry.ts";
export { redactText } from "./redaction.ts";
export { type LogLevel } from "./pino-logger.ts";
