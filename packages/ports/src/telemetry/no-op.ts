import type { Instant } from "@tutti/units";
import type { Fields, Logger, Span, SpanContext, SpanOptions, Telemetry, Tracer } from "./telemetry.ts";

const NO_CONTEXT: SpanContext = { traceId: "0".repeat(32), spanId: "0".repeat(16), sampled: false };

/**
 * A span that is not recorded. Its context is its parent's, so that its children join the last span that was recorded.
 * Without a parent it is all zeros, which no reader takes for a context.
 */
export function passingSpan(parent: SpanContext | undefined): Span {
  return parent === undefined ? NO_SPAN : { ...NO_SPAN, context: parent };
}
function nothing(_?: Fields | string | Instant): void {}
const NO_SPAN: Span = { context: NO_CONTEXT, set: nothing, event: nothing, keep: nothing, end: nothing };

export const passingTracer: Tracer = {
  enabled: false,
  start: (_: string, { parent }: SpanOptions) => passingSpan(parent),
};
const silentLogger: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLogger,
};

/** Logs nothing and records nothing; trace contexts pass through. */
export const noTelemetry: Telemetry = { log: silentLogger, tracer: passingTracer };
