import { type SpanContext, formatTraceparent, parseTraceparent } from "@tutti/ports/telemetry";
import { type Instant, instant } from "@tutti/units";

/** Name of the span from a batch's inputs being complete until the accelerator has ended the batch before. */
export const ACCELERATOR_WAIT = "wait for the accelerator";

/**
 * Metadata of a batch that the ingress gets beside the results. The trace of each request shows where its time went.
 */
export interface BatchTrace {
  /** Context of the batch's own span; undefined if no span is recorded. */
  readonly context: SpanContext | undefined;
  readonly grantedAt: Instant;
  /** When the executor received the batch. */
  readonly receivedAt: Instant;
  /** When the inputs of the batch were complete. */
  readonly readyAt: Instant;
}

/** Formats a trace as text, which only tracing ingresses parse: `traceparent grantedAt receivedAt readyAt`. */
export const formatBatchTrace = (context: SpanContext, at: Omit<BatchTrace, "context">): string =>
  `${formatTraceparent(context)} ${at.grantedAt} ${at.receivedAt} ${at.readyAt}`;

const FORM = /^(\S{55}) (\d{1,16}) (\d{1,16}) (\d{1,16})$/;

/**
 * Parses the text of a batch trace; undefined if it is malformed.
 * The text comes from another process, and a malformed one costs a request no more than its spans.
 */
export function parseBatchTrace(text: string | undefined): BatchTrace | undefined {
  const match = text === undefined ? null : FORM.exec(text);
  if (match === null) return undefined;
  const [, traceparent, ...times] = match;
  const [grantedAt = NaN, receivedAt = NaN, readyAt = NaN] = times.map(Number);
  if (![grantedAt, receivedAt, readyAt].every(Number.isSafeInteger)) return undefined;
  return {
    context: parseTraceparent(traceparent),
    grantedAt: instant(grantedAt),
    receivedAt: instant(receivedAt),
    readyAt: instant(readyAt),
  };
}
