/** The trace of one request, as its ingress knows it: the whole of it, since whoever ran it told when it did what. */
import type { ResultBatch, TuttiError } from "@tutti/protocol";
import { type Span, type SpanOptions, type Tracer, parseTraceparent } from "@tutti/ports/telemetry";
import { type ActorKey, type Instant, actorToken } from "@tutti/units";
import { type BatchTrace, parseBatchTrace } from "../batch-trace.ts";
import type { ModelLease } from "../catalog.ts";
import type { PendingRequest } from "./pending-requests.ts";

/** The ingress's span of a request, a child of the publisher's where there is one; undefined where nobody traces. */
export function startRequestSpan(
  tracer: Tracer,
  request: {
    readonly target: string;
    readonly app: string;
    /** Undefined: it came without a message. */
    readonly subject: string | undefined;
    readonly id: string | undefined;
    readonly traceparent: string | undefined;
    readonly at: Instant;
  },
): Span | undefined {
  const { target, app, subject, id, at } = request;
  const parent = parseTraceparent(request.traceparent);
  if (!tracer.enabled && parent?.sampled !== true) return undefined;
  const attributes = {
    "messaging.system": subject === undefined ? undefined : "nats",
    "messaging.destination.name": subject,
    "messaging.message.id": id,
    "tutti.model": target,
    "tutti.app": app,
  };
  return tracer.start(`infer ${target}`, {
    kind: "consumer",
    at,
    attributes,
    ...(parent === undefined ? {} : { parent }),
  });
}

/** Its body is read and it can be met: its batcher is told. */
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
 * A failover, seen by one request: somebody else has it now, or has it again. It is worth a record of what came of
 * that.
 */
export function traceFailover(held: PendingRequest, now: Instant, what: string, reason: string): void {
  if (held.span === undefined) return;
  held.span.event(what, now, { reason });
  held.span.keep();
}

/** Ends the span of a request that has its outcome; a refusal is always recorded, and so is what came late. */
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
  /** Its results, or the refusal, were here. */
  readonly heardAt: Instant;
  /** Its answer is out. */
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
 * One span after the other, from arrival to answer. Times of an executor whose clock differs a little may overlap those
 * of ours.
 */
function tracePhases(tracer: Tracer, span: Span, held: PendingRequest, { heardAt, now, results }: RequestEnd): void {
  const phase = (name: string, from: Instant, to: Instant, more: Partial<SpanOptions> = {}): void =>
    tracer.start(name, { kind: "internal", at: from, parent: span.context, ...more }).end(to);
  const trace = parseBatchTrace(results?.trace);
  if (results === undefined) phase("wait", held.arrivedAt, heardAt);
  else {
    const links = trace?.context?.sampled === true ? [trace.context] : [];
    if (trace !== undefined) traceWay(phase, held, trace, links);
    else phase("wait", held.arrivedAt, results.startedAt);
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

/** To the accelerator. */
function traceWay(phase: Phase, held: PendingRequest, trace: BatchTrace, links: SpanOptions["links"] & object): void {
  phase("wait", held.arrivedAt, trace.grantedAt);
  phase("grant", trace.grantedAt, trace.receivedAt, { links });
  phase("pull", trace.receivedAt, trace.readyAt);
}
