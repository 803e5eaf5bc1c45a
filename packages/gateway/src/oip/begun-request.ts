/** One request from its first byte to its end: its span, and what metrics note of it. */
import type { TensorAnswer } from "@tutti/client";
import { type ModelSpec, TuttiError } from "@tutti/protocol";
import { type Span, type Tracer, formatTraceparent, parseTraceparent } from "@tutti/ports/telemetry";
import type { Instant } from "@tutti/units";
import type { RequestTarget } from "./request-target.ts";
import type { RequestTerms } from "./request-terms.ts";

export interface BegunRequestOptions {
  /** Undefined: a pipeline. */
  readonly spec: ModelSpec | undefined;
  readonly target: RequestTarget;
  /** As the client sent them. */
  readonly terms: RequestTerms;
  /** When it came, by `performance.now()`. */
  readonly receivedAt: number;
  readonly tracer: Tracer;
  readonly onEnd: (begun: BegunRequest, outcome: string, results: readonly TensorAnswer[]) => void;
}

export class BegunRequest {
  readonly spec: ModelSpec | undefined;
  readonly target: RequestTarget;
  readonly terms: RequestTerms;
  readonly receivedAt: number;
  /** Time in which its file became tensors, ms; undefined: it has none. */
  decodeMs: number | undefined;
  readonly #options: BegunRequestOptions;
  readonly #span: Span | undefined;

  constructor(options: BegunRequestOptions) {
    const { spec, target, terms, receivedAt, tracer } = options;
    this.spec = spec;
    this.target = target;
    this.terms = terms;
    this.receivedAt = receivedAt;
    this.#options = options;
    if (!tracer.enabled) return;
    const parent = parseTraceparent(terms.traceparent);
    this.#span = tracer.start(`gateway ${target.name}`, {
      kind: "server",
      at: instantOf(receivedAt),
      ...(parent !== undefined && { parent }),
      attributes: { "tutti.model": target.name, "tutti.app": terms.app },
    });
  }

  get arrivedAt(): Instant {
    return instantOf(this.receivedAt);
  }

  /** The terms with the span's context: it is the parent of the spans behind it. */
  traced(terms: RequestTerms): RequestTerms {
    const span = this.#span;
    return span === undefined ? terms : { ...terms, traceparent: formatTraceparent(span.context) };
  }

  /** Its file is whole, and is decoded from now on. @returns a function to call when that has ended */
  beginDecoding(): () => void {
    const from = performance.now();
    if (from > this.receivedAt) this.#phase("receive", this.receivedAt, from);
    return () => {
      const now = performance.now();
      this.decodeMs = now - from;
      this.#phase("decode", from, now);
    };
  }

  asksFor(rows: number): void {
    this.#span?.set({ "tutti.rows": rows });
  }

  answered(results: readonly TensorAnswer[]): void {
    const at = performance.now();
    if ((at - this.receivedAt) * 1_000 > (this.terms.slo ?? this.target.slo ?? Infinity)) this.#span?.keep();
    this.#span?.end(instantOf(at));
    this.#options.onEnd(this, "ok", results);
  }

  failed(error: unknown): void {
    const { code, message } = error instanceof TuttiError ? error : { code: "TUTTI_INTERNAL", message: String(error) };
    if (this.#span !== undefined) {
      const at = instantOf(performance.now());
      this.#span.event("refused", at, { code, reason: message });
      this.#span.keep();
      this.#span.end(at, message);
    }
    this.#options.onEnd(this, code, []);
  }

  #phase(name: string, from: number, to: number): void {
    if (this.#span === undefined) return;
    const { tracer } = this.#options;
    tracer.start(name, { kind: "internal", at: instantOf(from), parent: this.#span.context }).end(instantOf(to));
  }
}

const instantOf = (ms: number): Instant => Math.round((performance.timeOrigin + ms) * 1_000) as Instant;
