export { CLOSE_MS, type OtelTelemetry, type TelemetryOptions, createTelemetry } from "./create-telemetry.ts";
export { redactText } from "./redaction.ts";
export { LOG_LEVELS, type LogLevel } from "./pino-logger.ts";
