/**
 * Requests that ran out of time while their batch was under way: their traces end without a batch. When its results
 * come after all, they add the run to the request's trace, with a link to the batch.
 */
import type { ResultBatch } from "@tutti/protocol";
import type { SpanContext, Tracer } from "@tutti/ports/telemetry";
import { parseBatchTrace } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";

/** Requests whose results may still come; the oldest is let go. Those that wait longer end without a link. */
export const LATE_RUNS_MAX = 1_024;

interface AwaitedRun {
  readonly context: SpanContext;
  readonly batch: number;
  readonly executor: number;
}

export class LateRuns {
  readonly #tracer: Tracer;
  /** By the request's sequence, the oldest first. */
  readonly #awaited = new Map<number, AwaitedRun>();

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  get size(): number {
    return this.#awaited.size;
  }

  /**
   * The request has ended without results; nothing is kept of one that no executor has pulled, or that isn't traced.
   */
  ended({ seq, span, batch, executor }: PendingRequest): void {
    if (span?.context.sampled !== true || batch === 0) return;
    this.#awaited.set(seq, { context: span.context, batch, executor });
    if (this.#awaited.size > LATE_RUNS_MAX) this.#awaited.delete(this.#awaited.keys().next().value!);
  }

  /** Results came for a request that is not held. They change nothing but its trace. */
  heard(seq: number, results: ResultBatch): void {
    const awaited = this.#awaited.get(seq);
    if (awaited === undefined || awaited.batch !== results.batchId || awaited.executor !== results.executor) return;
    this.#awaited.delete(seq);
    const batch = parseBatchTrace(results.trace)?.context;
    const span = this.#tracer.start("run, too late", {
      kind: "internal",
      at: results.startedAt,
      parent: awaited.context,
      ...(batch?.sampled === true && { links: [batch] }),
      attributes: { "tutti.batch": results.batchId, "tutti.batch_size": results.batchSize, "tutti.gpu": results.gpu },
    });
    span.end(results.finishedAt);
  }
}
