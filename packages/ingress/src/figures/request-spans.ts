/** The trace of one request, which its ingress records completely: executors report their times with the results. */
import type { ResultBatch, TuttiError } from "@tutti/protocol";
import { type Span, type SpanOptions, type Tracer, parseTraceparent } from "@tutti/ports/telemetry";
import { type ActorKey, type Instant, actorToken } from "@tutti/units";
import { ACCELERATOR_WAIT, type BatchTrace, type ModelLease, parseBatchTrace } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";

/**
 * Starts the ingress's span of a request, a child of the publisher's if there is one. It is undefined if nothing is
 * traced.
 *
 * @param subject - of its message; undefined: it came without one
 */
export function startRequestSpan(
  tracer: Tracer,
  { target, app, arrivedAt, messageId, publisherTrace }: PendingRequest,
  subject: string | undefined,
): Span | undefined {
  const parent = parseTraceparent(publisherTrace);
  if (!tracer.enabled && parent?.sampled !== true) return undefined;
  const attributes = {
    "messaging.system": subject === undefined ? undefined : "nats",
    "messaging.destination.name": subject,
    "messaging.message.id": messageId,
    "tutti.model": target,
    "tutti.app": app,
  };
  return tracer.start(`infer ${target}`, {
    kind: "consumer",
    at: arrivedAt,
    attributes,
    ...(parent === undefined ? {} : { parent }),
  });
}

/** The body is read, the deadline is feasible, and the arrival is about to be sent to the batcher. */
export function traceAccepted(held: PendingRequest, lease: ModelLease, now: Instant): void {
  held.span?.event("accepted", now, {
    "tutti.batcher": actorToken(lease.batcher),
    "tutti.term": lease.term,
    "tutti.bytes": held.row.byteLength,
    "tutti.slo_us": held.slo,
    "tutti.time_left_us": held.deadline - now,
  });
}

/**
 * Records a failover of a request: another actor has it now, or the same one has it again. The span is kept, to show
 * the outcome.
 */
export function traceFailover(held: PendingRequest, now: Instant, what: string, reason: string): void {
  if (held.span === undefined) return;
  held.span.event(what, now, { reason });
  held.span.keep();
}

/** Ends the span of a request that has its outcome; refusals and late answers are always recorded. */
export function endOutcomeSpan(
  span: Span,
  end: { readonly error: TuttiError | undefined; readonly late: boolean; readonly now: Instant },
): void {
  const { error, late, now } = end;
  if (error !== undefined)
    span.event(error.code === "TUTTI_CANCELLED" ? "cancelled" : "refused", now, {
      code: error.code,
      reason: error.message,
      retryable: error.retryable,
      retry_after_ms: error.retryAfterMs,
    });
  if (late || error !== undefined) span.keep();
  span.set({ "tutti.outcome": error?.code ?? "ok", "tutti.late": late });
  span.end(now, error?.message);
}

export interface RequestEnd {
  readonly error: TuttiError | undefined;
  /** When its results, or the refusal, arrived. */
  readonly heardAt: Instant;
  /** When its answer was sent. */
  readonly now: Instant;
  readonly results: ResultBatch | undefined;
}

export function endRequestSpan(
  tracer: Tracer,
  held: PendingRequest,
  { error, heardAt, now, results }: RequestEnd,
): void {
  const { span } = held;
  if (span === undefined) return;
  const late = now > held.deadline;
  if (late || error !== undefined) span.keep();
  if (span.context.sampled) tracePhases(tracer, span, held, { error, heardAt, now, results });
  span.set({
    "tutti.batch": results?.batchId,
    "tutti.batch_size": results?.batchSize,
    "tutti.gpu": results?.gpu,
  });
  endOutcomeSpan(span, { error, late, now });
}

/**
 * Adds one span after the other, from arrival to answer. The times of an executor whose clock differs a little may
 * overlap those of the ingress.
 */
function tracePhases(tracer: Tracer, span: Span, held: PendingRequest, { heardAt, now, results }: RequestEnd): void {
  const phase = (name: string, from: Instant, to: Instant, more: Partial<SpanOptions> = {}): void =>
    tracer.start(name, { kind: "internal", at: from, parent: span.context, ...more }).end(to);
  const trace = parseBatchTrace(results?.trace);
  if (results === undefined) phase("wait", held.arrivedAt, heardAt);
  else {
    const links = trace?.context?.sampled === true ? [trace.context] : [];
    if (trace === undefined) phase("wait", held.arrivedAt, results.startedAt);
    else {
      traceWay(phase, held, trace, links);
      if (results.startedAt > trace.readyAt) phase(ACCELERATOR_WAIT, trace.readyAt, results.startedAt);
    }
    phase("run", results.startedAt, results.finishedAt, {
      links,
      attributes: {
        "tutti.batch": results.batchId,
        "tutti.batch_size": results.batchSize,
        "tutti.executor": actorToken(results.executor as ActorKey),
        "tutti.gpu": results.gpu,
      },
    });
    phase("push", results.finishedAt, heardAt);
  }
  phase("answer", heardAt, now);
}

type Phase = (name: string, from: Instant, to: Instant, more?: Partial<SpanOptions>) => void;

/** Adds the phases up to the accelerator. */
function traceWay(phase: Phase, held: PendingRequest, trace: BatchTrace, links: SpanOptions["links"] & object): void {
  phase("wait", held.arrivedAt, trace.grantedAt);
  phase("grant", trace.grantedAt, trace.receivedAt, { links });
  phase("pull", trace.receivedAt, trace.readyAt);
}
