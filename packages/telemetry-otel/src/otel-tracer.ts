import {
  type Context,
  type HrTime,
  type Link,
  ROOT_CONTEXT,
  type Span as OtelSpan,
  type SpanContext as OtelSpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer as OtelApiTracer,
  trace,
} from "@opentelemetry/api";
import {
  ParentBasedSampler,
  type Sampler,
  SamplingDecision,
  type SamplingResult,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace";
import { type Span, type SpanContext, type SpanOptions, type Tracer, passingSpan } from "@tutti/telemetry";
import type { Instant } from "@tutti/units";
import { redactFields, redactText } from "./redaction.ts";

const KINDS: Readonly<Record<SpanOptions["kind"], SpanKind>> = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};

/** The port's tracer over an OpenTelemetry tracer. */
export class OtelTracer implements Tracer {
  readonly enabled = true;
  readonly #tracer: OtelApiTracer;

  constructor(tracer: OtelApiTracer) {
    this.#tracer = tracer;
  }

  start(name: string, { kind, at, parent, links = [], attributes = {} }: SpanOptions): Span {
    // An unsampled parent decides for all that follows (W3C), so that path costs nothing here.
    if (parent?.sampled === false) return passingSpan(parent);
    const context = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, toOtel(parent));
    const span = this.#tracer.startSpan(
      name,
      {
        kind: KINDS[kind],
        startTime: toHrTime(at),
        links: links.map((link) => ({ context: toOtel(link) })),
        attributes: redactFields(attributes),
      },
      context,
    );
    return new RecordedSpan(span);
  }
}

class RecordedSpan implements Span {
  readonly context: SpanContext;
  readonly #span: OtelSpan;

  constructor(span: OtelSpan) {
    this.#span = span;
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.context = { traceId, spanId, sampled: (traceFlags & TraceFlags.SAMPLED) !== 0 };
  }
  set(attributes: Parameters<Span["set"]>[0]): void {
    if (this.#span.isRecording()) this.#span.setAttributes(redactFields(attributes));
  }
  event(name: string, at: Instant, attributes: Parameters<Span["set"]>[0] = {}): void {
    if (this.#span.isRecording()) this.#span.addEvent(name, redactFields(attributes), toHrTime(at));
  }
  end(at: Instant, error?: string): void {
    if (error !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR, message: redactText(error) });
    this.#span.end(toHrTime(at));
  }
}

/** Seconds and nanoseconds: exact, where milliseconds in a double would lose the microsecond. */
export const toHrTime = (at: Instant): HrTime => [Math.floor(at / 1e6), (at % 1e6) * 1_000];

const toOtel = ({ traceId, spanId, sampled }: SpanContext): OtelSpanContext => ({
  traceId,
  spanId,
  traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
  isRemote: true,
});

/**
 * Head sampling: as the parent is; without one, a share `ratio` of the traces. A batch has no parent but links to its requests: it is recorded when one of them is,
 * or a sampled request would link to a batch that isn't there.
 */
export function headSampler(ratio: number): Sampler {
  return new ParentBasedSampler({ root: new LinkedSampler(new TraceIdRatioBasedSampler(ratio)) });
}

class LinkedSampler implements Sampler {
  readonly #otherwise: Sampler;
  constructor(otherwise: Sampler) {
    this.#otherwise = otherwise;
  }
  shouldSample(
    context: Context,
    traceId: string,
    name: string,
    kind: SpanKind,
    attributes: Parameters<Sampler["shouldSample"]>[4],
    links: Link[],
  ): SamplingResult {
    if (links.some((link) => (link.context.traceFlags & TraceFlags.SAMPLED) !== 0)) {
      return { decision: SamplingDecision.RECORD_AND_SAMPLED };
    }
    return this.#otherwise.shouldSample(context, traceId, name, kind, attributes, links);
  }
  toString(): string {
    return `Linked{${this.#otherwise.toString()}}`;
  }
}
