import { type BatchDispatched, threadName } from "@tutti/protocol";
import { type SpanContext, type Tracer, parseTraceparent } from "@tutti/telemetry";
import { type Instant, bucketOf } from "@tutti/units";
import type { Run } from "./run.ts";

/** One span per batch, linked to the spans of its requests: why it started when it did, with whom, and how long it took. */
export function traceBatch(
  tracer: Tracer,
  run: Run,
  ran: { readonly startedAt: Instant; readonly finishedAt: Instant; readonly error: string | undefined },
): void {
  if (!tracer.enabled && run.traceparents.length === 0) return;
  const { batch, model } = run;
  const links = run.traceparents
    .map(parseTraceparent)
    .filter((context): context is SpanContext => context !== undefined);
  const span = tracer.start(`batch ${model.spec.name}`, {
    kind: "internal",
    at: run.receivedAt,
    links,
    attributes: {
      "tutti.model": threadName(model.spec, bucketOf(batch.thread)),
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
  span.event("inputs ready", run.readyAt);
  span.event("run", ran.startedAt);
  span.end(ran.finishedAt, ran.error);
}

/** The window in which the scheduler meant the batch to start (docs/algorithms.md, A3), relative to its grant, in microseconds. */
function windowOf(batch: BatchDispatched) {
  return {
    "tutti.deadline": batch.latest + batch.expectedRun,
    "tutti.window.exec": batch.startAt,
    "tutti.window.latest": batch.latest,
    "tutti.window.frontrun": Number.isFinite(batch.frontrun) ? batch.frontrun : undefined,
    "tutti.granted_at": batch.grantedAt,
    "tutti.expected_run_us": batch.expectedRun,
  };
}
