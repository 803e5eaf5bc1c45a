import { type SpanContext, formatTraceparent, parseTraceparent } from "@tutti/ports/telemetry";
import { type Instant, instant } from "@tutti/units";

/**
 * What an ingress is told of a batch beside its results, so that the trace of each request says where its time went.
 */
export interface BatchTrace {
  /** Of the batch's own span; undefined where nobody records it. */
  readonly context: SpanContext | undefined;
  readonly grantedAt: Instant;
  /** Its executor had it. */
  readonly receivedAt: Instant;
  /** Its inputs were there. */
  readonly readyAt: Instant;
}

/** As text, since only who traces pays for it: `traceparent grantedAt receivedAt readyAt`. */
export const formatBatchTrace = (context: SpanContext, at: Omit<BatchTrace, "context">): string =>
  `${formatTraceparent(context)} ${at.grantedAt} ${at.receivedAt} ${at.readyAt}`;

const FORM = /^(\S{55}) (\d{1,16}) (\d{1,16}) (\d{1,16})$/;

/** Undefined for what is none: it comes from another process, and costs a request no more than its spans. */
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
