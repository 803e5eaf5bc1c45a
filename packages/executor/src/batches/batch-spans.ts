/** The spans of a batch: why it started when it did, with which requests, and where its time went. */
import { type BatchDispatched, threadName } from "@tutti/protocol";
import { type Span, type SpanContext, type Tracer, parseTraceparent } from "@tutti/ports/telemetry";
import { type Instant, bucketOf, isJobThread } from "@tutti/units";
import { ACCELERATOR_WAIT, formatBatchTrace } from "@tutti/actors/runtime";
import type { Run } from "./run.ts";

/** When the batch ran, and why it failed if it did. */
export interface BatchRan {
  readonly startedAt: Instant;
  readonly finishedAt: Instant;
  readonly error: string | undefined;
}

/**
 * Starts the span of a batch, in a trace of its own and linked to those of its requests. It is undefined if nothing is
 * traced. It starts just before the results are pushed, since they carry its context. The span of a batch that failed
 * or ended late is kept with links to all its requests, which are late too.
 */
export function startBatchSpan(tracer: Tracer, run: Run, ran: BatchRan): Span | undefined {
  if (!tracer.enabled && run.traceparents.length === 0) return undefined;
  const { batch, model } = run;
  const isLate = !isJobThread(batch.thread) && ran.finishedAt > batch.latest + batch.expectedRun;
  const isWorthIt = ran.error !== undefined || isLate;
  const links = run.traceparents
    .map(parseTraceparent)
    .filter((context): context is SpanContext => context !== undefined && (isWorthIt || context.sampled));
  const span = tracer.start(`batch ${model.spec.name}`, {
    kind: "internal",
    at: batch.grantedAt,
    links,
    attributes: {
      "tutti.model": threadName(model.spec, bucketOf(batch.thread)),
      "tutti.jobs": isJobThread(batch.thread) ? true : undefined,
      "tutti.batch": batch.batchId,
      "tutti.batch_size": run.rows,
      "tutti.gpu": batch.gpu,
      "tutti.epoch": batch.epoch,
      "tutti.grant": batch.grantSeq,
      ...windowOf(batch),
      "tutti.pull_us": run.readyAt - run.receivedAt,
      "tutti.run_us": ran.finishedAt - ran.startedAt,
      "tutti.late_us": Math.max(0, ran.startedAt - batch.latest),
    },
  });
  if (isWorthIt) span.keep();
  return span;
}

/** Trace text for the ingresses of the batch's requests. */
export const traceTextOf = (span: Span, { batch: { grantedAt }, receivedAt, readyAt }: Run): string =>
  formatBatchTrace(span.context, { grantedAt, receivedAt, readyAt });

/** @param pushedAt - when its results were on their way */
export function endBatchSpan(tracer: Tracer, span: Span, run: Run, ran: BatchRan & { readonly pushedAt: Instant }) {
  if (span.context.sampled) {
    const phase = (name: string, from: Instant, to: Instant): void =>
      tracer.start(name, { kind: "internal", at: from, parent: span.context }).end(to);
    phase("grant", run.batch.grantedAt, run.receivedAt);
    phase("pull", run.receivedAt, run.readyAt);
    if (ran.startedAt > run.readyAt) phase(ACCELERATOR_WAIT, run.readyAt, ran.startedAt);
    phase("run", ran.startedAt, ran.finishedAt);
    phase("push", ran.finishedAt, ran.pushedAt);
  }
  span.end(ran.pushedAt, ran.error);
}

/**
 * The window in which the scheduler planned the batch to start (docs/algorithms.md, A3), in microseconds from its
 * grant, with which the span begins: moments since the epoch would be sixteen digits that nobody can read.
 */
function windowOf(batch: BatchDispatched) {
  return {
    "tutti.deadline_us": batch.latest + batch.expectedRun - batch.grantedAt,
    "tutti.window.exec_us": batch.startAt - batch.grantedAt,
    "tutti.window.latest_us": batch.latest - batch.grantedAt,
    "tutti.window.frontrun_us": Number.isFinite(batch.frontrun) ? batch.frontrun - batch.grantedAt : undefined,
    "tutti.expected_run_us": batch.expectedRun,
  };
}
