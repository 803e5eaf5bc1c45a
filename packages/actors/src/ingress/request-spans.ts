import type { Delivery } from "@tutti/bus";
import { HEADER, type ResultBatch, type TuttiError } from "@tutti/protocol";

import { type Span, type Tracer, parseTraceparent } from "@tutti/telemetry";
import type { Instant } from "@tutti/units";

/** The ingress's span of a request, a child of the publisher's where there is one; undefined where nobody traces. */
export function startRequestSpan(
  tracer: Tracer,
  delivery: Delivery,
  request: { readonly target: string; readonly app: string; readonly at: Instant },
): Span | undefined {
  const { target, app, at } = request;
  const parent = parseTraceparent(delivery.header(HEADER.traceparent));
  if (!tracer.enabled && parent?.sampled !== true) return undefined;
  const attributes = {
    "messaging.system": "nats",
    "messaging.destination.name": delivery.subject,
    "messaging.message.id": delivery.header(HEADER.messageId),
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

export function endRequestSpan(
  span: Span,
  end: { error: TuttiError | undefined; late: boolean; now: Instant; results: ResultBatch | undefined },
): void {
  span.set({
    "tutti.outcome": end.error?.code ?? "ok",
    "tutti.late": end.late,
    "tutti.batch": end.results?.batchId,
    "tutti.batch_size": end.results?.batchSize,
    "tutti.gpu": end.results?.gpu,
  });
  span.end(end.now, end.error?.message);
}
