import type { Instant } from "@tutti/units";

/** The telemetry port: structured logs and traces. Calls never throw and never block; attributes are flat. */
export interface Telemetry {
  readonly log: Logger;
  readonly tracer: Tracer;
}

export type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Logger {
  /** Lines below it are not written. Default: not known. */
  readonly level?: string;
  debug(fields: Fields, text: string): void;
  info(fields: Fields, text: string): void;
  warn(fields: Fields, text: string): void;
  error(fields: Fields, text: string): void;
  child(fields: Fields): Logger;
}

export interface SpanContext {
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  readonly sampled: boolean;
}

export interface Tracer {
  /**
   * False when no exporter is configured and nothing upstream is sampled: callers then skip the work of building
   * attributes.
   */
  readonly enabled: boolean;
  start(name: string, options: SpanOptions): Span;
}
export interface SpanOptions {
  readonly kind: "internal" | "server" | "client" | "producer" | "consumer";
  readonly at: Instant;
  readonly parent?: SpanContext;
  readonly links?: readonly SpanContext[];
  readonly attributes?: Fields;
}
export interface Span {
  /** The span's context as of now: `keep` makes it a sampled one. */
  readonly context: SpanContext;
  set(attributes: Fields): void;
  event(name: string, at: Instant, attributes?: Fields): void;
  /**
   * Records the span although head sampling left it out: for a refusal, a failure or a slow one. Call it before `end`.
   */
  keep(): void;
  end(at: Instant, error?: string): void;
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** W3C trace context; undefined for anything malformed, so that bad headers cost nothing but their own trace. */
export function parseTraceparent(text: string | undefined): SpanContext | undefined {
  const match = text === undefined ? null : TRACEPARENT.exec(text);
  if (match === null) return undefined;
  const [, traceId = "", spanId = "", flags = "00"] = match;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}
export const formatTraceparent = (context: SpanContext): string =>
  `00-${context.traceId}-${context.spanId}-${context.sampled ? "01" : "00"}`;
