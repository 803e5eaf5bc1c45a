import type { Bus } from "@tutti/bus";
import { CONTENT, HEADER, TuttiError, inferSubject, isName } from "@tutti/protocol";
import { type Span, type Telemetry, formatTraceparent } from "@tutti/telemetry";
import { type Instant, type Micros, parseDuration } from "@tutti/units";
import { type Form, encodeRequest } from "@tutti/wire";
import { type InferResult, readAnswer } from "./answer.ts";
import { ReplyInbox } from "./reply-inbox.ts";
import { type TensorInput, toWire } from "./tensors.ts";

export interface ClientOptions {
  /** The application in whose name requests are made, unless they name another. */
  readonly app?: string;
  readonly telemetry?: Telemetry;
  /** Requests in flight at once; beyond, `infer` rejects with OVERLOADED. */
  readonly inFlightMax?: number;
  /** How long to wait for the answer to a request that gives no SLO of its own. */
  readonly timeoutMs?: number;
}

export interface InferOptions {
  readonly app?: string;
  /** From arrival to answer: `"25ms"`, or a number of milliseconds. Default: the model's own. */
  readonly slo?: string | number;
  /** Names of the outputs wanted; all by default. */
  readonly outputs?: readonly string[];
  readonly signal?: AbortSignal;
  readonly form?: Form;
  /** Of the model; the newest by default. */
  readonly version?: string;
  readonly priority?: number;
  /** The application's own id of this request, handed back by nobody: it lets whoever reads the bus tell requests apart. */
  readonly id?: string;
}

const IN_FLIGHT_MAX = 65_536;
const TIMEOUT_MS = 10_000;
/** The ingress answers at its deadline at the latest; what comes later than this is lost. T1 allows 100 ms. */
const GRACE_MS = 60;

/**
 * A publisher. Every `infer` settles exactly once: with the outputs, or with a TuttiError whose `code` and `retryable` say what happened.
 * When the answer is lost (its ingress died), that is UNAVAILABLE within the deadline plus 100 ms (docs/architecture.md, T1).
 */
export class TuttiClient {
  readonly #bus: Bus;
  readonly #app: string;
  readonly #telemetry: Telemetry | undefined;
  readonly #inFlightMax: number;
  readonly #timeoutMs: number;
  readonly #inbox: ReplyInbox;
  readonly #inFlight = new Set<Flight>();
  #closed = false;

  constructor(bus: Bus, options: ClientOptions = {}) {
    this.#bus = bus;
    this.#app = options.app ?? "default";
    this.#telemetry = options.telemetry;
    this.#inFlightMax = options.inFlightMax ?? IN_FLIGHT_MAX;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#inbox = new ReplyInbox(bus);
  }

  /** Answers that came for nobody: after their deadline, after a cancel, or a second time. */
  get lateAnswers(): number {
    return this.#inbox.late;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /**
   * Asks `target` (a model) for its outputs.
   *
   * @param inputs - by name; a batch axis of 1 may be left out
   * @throws {TuttiError} as a rejection; match on `code`, never on the text
   */
  infer(
    target: string,
    inputs: Readonly<Record<string, TensorInput>>,
    options: InferOptions = {},
  ): Promise<InferResult> {
    return new Promise((resolve, reject) => {
      const flight = this.#prepare(target, inputs, options);
      const settle = (result: InferResult | TuttiError): void => {
        if (!this.#inFlight.delete(flight)) return;
        this.#inbox.forget(flight.token);
        clearTimeout(flight.timer);
        options.signal?.removeEventListener("abort", flight.onAbort);
        flight.span?.end(now(), result instanceof TuttiError ? result.message : undefined);
        if (result instanceof TuttiError) reject(result);
        else resolve(result);
      };
      flight.settle = settle;
      flight.onAbort = () => settle(cancelled(options.signal));
      flight.token = this.#inbox.expect((delivery) => settle(readAnswer(delivery, target)));
      flight.timer = setTimeout(() => settle(lost(target, flight.waitMs)), flight.waitMs + GRACE_MS);
      this.#inFlight.add(flight);
      options.signal?.addEventListener("abort", flight.onAbort, { once: true });
      if (!this.#publish(flight)) settle(this.#unsent(flight));
    });
  }

  /** Ends what is in flight with CANCELLED. The bus stays open: it belongs to whoever made it. */
  close(): void {
    this.#closed = true;
    for (const flight of [...this.#inFlight]) flight.settle(new TuttiError("TUTTI_CANCELLED", "the client was closed"));
    this.#inbox.close();
  }

  #prepare(target: string, inputs: Readonly<Record<string, TensorInput>>, options: InferOptions): Flight {
    if (this.#closed) throw new TuttiError("TUTTI_UNAVAILABLE", "the client is closed", { retryable: false });
    if (options.signal?.aborted === true) throw cancelled(options.signal);
    if (this.#inFlight.size >= this.#inFlightMax) {
      throw new TuttiError("TUTTI_OVERLOADED", `this client has ${this.#inFlightMax} requests in flight already`);
    }
    const app = options.app ?? this.#app;
    if (!isName(target)) throw invalid(`"${target}" is no name of a model: letters, digits, "-" and "_" only`);
    if (!isName(app)) throw invalid(`"${app}" is no name of an application: letters, digits, "-" and "_" only`);
    const slo = sloOf(options.slo);
    const form = options.form ?? "binary";
    const payload = encodeRequest(form, {
      inputs: Object.entries(inputs).map(([name, input]) => toWire(name, input)),
      ...(options.outputs !== undefined && { outputs: options.outputs }),
      ...(options.id !== undefined && { id: options.id }),
    });
    const span = this.#telemetry?.tracer.start(`infer ${target}`, {
      kind: "producer",
      at: now(),
      attributes: { "messaging.system": "nats", "tutti.model": target, "tutti.app": app },
    });
    return {
      subject: inferSubject(target, app),
      payload,
      headers: headersOf(form, slo, options, span),
      waitMs: slo === undefined ? this.#timeoutMs : Math.ceil(slo / 1000),
      span,
      token: 0,
      timer: undefined,
      settle: () => undefined,
      onAbort: () => undefined,
    };
  }

  #publish({ subject, payload, headers, token }: Flight): boolean {
    return this.#bus.publish(subject, payload, { reply: this.#inbox.subjectOf(token), headers });
  }

  #unsent({ payload }: Flight): TuttiError {
    if (payload.byteLength > this.#bus.payloadMax) {
      const limit = `the server takes at most ${this.#bus.payloadMax} bytes in one message`;
      return new TuttiError("TUTTI_TOO_LARGE", `the request has ${payload.byteLength} bytes; ${limit}`);
    }
    return new TuttiError("TUTTI_UNAVAILABLE", "not connected to a NATS server at the moment");
  }
}

interface Flight {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  readonly waitMs: number;
  readonly span: Span | undefined;
  token: number;
  timer: NodeJS.Timeout | undefined;
  settle(result: InferResult | TuttiError): void;
  onAbort(): void;
}

function headersOf(
  form: Form,
  slo: Micros | undefined,
  options: InferOptions,
  span: Span | undefined,
): Record<string, string> {
  const headers: Record<string, string> = { [HEADER.contentType]: CONTENT[form] };
  if (slo !== undefined) headers[HEADER.slo] = `${slo}us`;
  if (options.outputs !== undefined) headers[HEADER.outputs] = options.outputs.join(",");
  if (options.version !== undefined) headers[HEADER.version] = options.version;
  if (options.priority !== undefined) headers[HEADER.priority] = String(options.priority);
  if (options.id !== undefined) headers[HEADER.messageId] = options.id;
  if (span !== undefined) headers[HEADER.traceparent] = formatTraceparent(span.context);
  return headers;
}

function sloOf(slo: string | number | undefined): Micros | undefined {
  if (slo === undefined) return undefined;
  const duration = parseDuration(typeof slo === "number" ? `${slo}ms` : slo);
  if (duration === undefined)
    throw invalid(`"${slo}" is no length of time: write 25ms, 1.5s or a number of milliseconds`);
  return duration;
}

function lost(target: string, waitMs: number): TuttiError {
  return new TuttiError("TUTTI_UNAVAILABLE", `no answer from ${target} within ${waitMs} ms: its ingress may have died`);
}

function cancelled(signal: AbortSignal | undefined): TuttiError {
  return new TuttiError("TUTTI_CANCELLED", "cancelled by the caller", { cause: signal?.reason });
}

const now = (): Instant => Math.round((performance.timeOrigin + performance.now()) * 1000) as Instant;
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
