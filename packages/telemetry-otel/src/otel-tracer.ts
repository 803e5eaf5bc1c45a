import {
  type HrTime,
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
  type IdGenerator,
  RandomIdGenerator,
  type Sampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace";
import type { Fields, Span, SpanContext, SpanOptions, Tracer } from "@tutti/ports/telemetry";
import type { Instant } from "@tutti/units";
import { redactFields, redactText } from "./redaction.ts";

const KINDS: Readonly<Record<SpanOptions["kind"], SpanKind>> = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};
/** Attributes and events that wait on an unsampled span until it is kept; further ones are dropped. */
const WAITING_EVENTS_MAX = 32;
/**
 * Kept spans per second. A span kept at its end costs as much as a sampled one: in an overload, where each request is
 * refused, the first ones of each second suffice.
 */
export const KEPT_PER_SECOND = 500;

/** Returns ids that were drawn before. A span that is kept at its end has the ids that its links and children use. */
export class ChosenIds implements IdGenerator {
  readonly #random = new RandomIdGenerator();
  next = { traceId: "", spanId: "" };

  draw(parent: SpanContext | undefined): void {
    this.next = {
      traceId: parent?.traceId ?? this.#random.generateTraceId(),
      spanId: this.#random.generateSpanId(),
    };
  }
  generateTraceId = (): string => this.next.traceId;
  generateSpanId = (): string => this.next.spanId;
}

/** The number of spans that a process may still keep in this second, whichever of its services keeps them. */
export class Allowance {
  #second = 0;
  #left = KEPT_PER_SECOND;

  take(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (second !== this.#second) [this.#second, this.#left] = [second, KEPT_PER_SECOND];
    return this.#left-- > 0;
  }
}

export interface OtelTracerOptions {
  /** Tracer of a provider that samples everything and takes its ids from `ids`. */
  readonly tracer: OtelApiTracer;
  readonly ids: ChosenIds;
  readonly allowance: Allowance;
  /** Share of the traces beginning here that are recorded. */
  readonly ratio: number;
}

/**
 * The port's tracer over an OpenTelemetry tracer. Sampling is decided at the head. A span with a parent is recorded if
 * its parent is. Without one it is recorded when a linked span is (a batch has no parent but links to its requests, and
 * a sampled request must not link to a batch that isn't there), else by the ratio. An unsampled span waits in a cheap
 * form, and is recorded if it is kept before it ends.
 */
export class OtelTracer implements Tracer {
  readonly enabled = true;
  readonly #tracer: OtelApiTracer;
  readonly #ids: ChosenIds;
  readonly #ratio: Sampler;
  readonly #allowance: Allowance;

  constructor({ tracer, ids, allowance, ratio }: OtelTracerOptions) {
    this.#tracer = tracer;
    this.#ids = ids;
    this.#allowance = allowance;
    this.#ratio = new TraceIdRatioBasedSampler(ratio);
  }

  start(name: string, options: SpanOptions): Span {
    this.#ids.draw(options.parent);
    const ids = this.#ids.next;
    return new OpenSpan(
      { ...ids, sampled: this.#isSampled(ids.traceId, options) },
      { record: () => this.#record(name, options, ids), mayKeep: () => this.#allowance.take() },
    );
  }

  #isSampled(traceId: string, { parent, links = [] }: SpanOptions): boolean {
    if (parent !== undefined) return parent.sampled;
    if (links.some((link) => link.sampled)) return true;
    const { decision } = this.#ratio.shouldSample(ROOT_CONTEXT, traceId, "", SpanKind.INTERNAL, {}, []);
    return decision === SamplingDecision.RECORD_AND_SAMPLED;
  }

  #record(name: string, { kind, at, parent, links = [], attributes = {} }: SpanOptions, ids: ChosenIds["next"]) {
    this.#ids.next = ids;
    return this.#tracer.startSpan(
      name,
      {
        kind: KINDS[kind],
        startTime: toHrTime(at),
        links: links.map((link) => ({ context: toOtel(link) })),
        attributes: redactFields(attributes),
      },
      parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, toOtel(parent)),
    );
  }
}

interface OpenSpanPorts {
  readonly record: () => OtelSpan;
  readonly mayKeep: () => boolean;
}

/** A span that is recorded from its start, or from when it is kept. */
class OpenSpan implements Span {
  #context: SpanContext;
  readonly #ports: OpenSpanPorts;
  #span: OtelSpan | undefined;
  #waiting: ((span: OtelSpan) => void)[] = [];

  constructor(context: SpanContext, ports: OpenSpanPorts) {
    this.#context = context;
    this.#ports = ports;
    if (context.sampled) this.#span = ports.record();
  }

  get context(): SpanContext {
    return this.#context;
  }
  set(attributes: Fields): void {
    this.#do((span) => span.setAttributes(redactFields(attributes)));
  }
  event(name: string, at: Instant, attributes: Fields = {}): void {
    this.#do((span) => span.addEvent(name, redactFields(attributes), toHrTime(at)));
  }
  keep(): void {
    if (this.#span !== undefined || !this.#ports.mayKeep()) return;
    this.#context = { ...this.#context, sampled: true };
    this.#span = this.#ports.record();
    for (const act of this.#waiting) act(this.#span);
    this.#waiting = [];
  }
  end(at: Instant, error?: string): void {
    this.#waiting = [];
    if (error !== undefined) this.#span?.setStatus({ code: SpanStatusCode.ERROR, message: redactText(error) });
    this.#span?.end(toHrTime(at));
  }

  #do(act: (span: OtelSpan) => void): void {
    if (this.#span !== undefined) act(this.#span);
    else if (this.#waiting.length < WAITING_EVENTS_MAX) this.#waiting.push(act);
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
