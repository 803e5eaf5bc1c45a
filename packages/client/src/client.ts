import type { Bus } from "@tutti/ports/bus";
import {
  CONTENT,
  type CostOffset,
  HEADER,
  SIZE_HINT_MAX,
  SLO_US_MAX,
  type Tensor,
  NAME_RULE,
  TuttiError,
  checkedCosts,
  formatCosts,
  inferSubject,
  isModelName,
  isName,
} from "@tutti/protocol";
import { type Span, type Telemetry, formatTraceparent, parseTraceparent } from "@tutti/ports/telemetry";
import { type Instant, type Micros, parseDuration } from "@tutti/units";
import { type Form, encodeRequest } from "@tutti/wire";
import type { InferResult, TensorAnswer } from "./answer.ts";
import { type Call, Flight, GRACE_MS } from "./flight.ts";
import { JobClient } from "./jobs.ts";
import { ReplyInbox } from "./reply-inbox.ts";
import { type TensorInput, inputsToWire, tensorValue } from "./tensors.ts";

export interface ClientOptions {
  /** Application in whose name requests are made, unless a request names another. */
  readonly app?: string;
  readonly telemetry?: Telemetry;
  /** Requests in flight at once; beyond, `infer` rejects with OVERLOADED. */
  readonly inFlightMax?: number;
  /** Wait for the answer to a request that gives no SLO of its own. */
  readonly timeoutMs?: number;
  /** Retries of calls that give no number. Default 0. */
  readonly retries?: number;
}

/** An AbortSignal, or any object that reports once that the caller no longer waits. */
export type CancelSignal = Pick<AbortSignal, "aborted" | "reason"> & {
  addEventListener(type: "abort", listener: () => void, options?: { once: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
};

export interface InferOptions {
  readonly app?: string;
  /** From arrival to answer: `"25ms"`, or a number of milliseconds. Default: the model's own. */
  readonly slo?: string | number;
  /**
   * Costs of a late answer, in place of `slo`: `[{ after: "25ms", cost: 1 }, { after: "100ms", cost: 3 }]`. The first
   * step is the SLO. A request that misses it is served until the last one, as far as accelerators have time left. A
   * refused request costs that of the last step.
   */
  readonly costs?: readonly { readonly after: string | number; readonly cost: number }[];
  /**
   * How much longer to wait where the model may be parked: the `cold_start` of its configuration, which the cluster
   * adds to the SLO while the model is loaded. Default: 0.
   */
  readonly coldStart?: string | number;
  /** Names of the outputs wanted; all by default. */
  readonly outputs?: readonly string[];
  /** Cancels the request: it is not run if it has not begun. */
  readonly signal?: CancelSignal;
  /**
   * Largest number of retries after retryable errors. A retry is the same request, unchanged and with the same id. Each
   * attempt has its SLO anew. A refused attempt is followed after its `retryAfterMs`; an attempt without an answer (its
   * ingress died) when its time is over. Default: the client's.
   */
  readonly retries?: number;
  /**
   * Bounds all attempts together: `"100ms"`, or a number of milliseconds. The last attempts have the remaining time as
   * their SLO, and none is made with less than half of it. Default: what every attempt needs, (retries + 1) · (SLO + 60
   * ms).
   */
  readonly within?: string | number;
  readonly form?: Form;
  /**
   * Version of the model; by default the route chooses one that has a share (docs/rollouts.md). The target
   * `name/version` says the same.
   */
  readonly version?: string;
  readonly priority?: number;
  /**
   * Length of the request in its model's own unit (tokens, pixels of width): above zero. The scheduler then knows its
   * run time. Default: what the cluster reads from the tensors, where the model declares an axis that varies.
   */
  readonly size?: number;
  /**
   * The application's own id of this request; no answer returns it. A reader of the bus can tell requests apart by it,
   * and recognise one that was sent again. Default, where there are retries: a random one.
   */
  readonly id?: string;
  /** W3C trace context of the caller, whose trace this call continues. An unreadable one is left out. */
  readonly traceparent?: string;
}

/** Options of a caller that passes tensors on. */
export interface TensorOptions extends InferOptions {
  /** Whether it is a job: it gets accelerator time that no request needs, and is held for ten minutes at most. */
  readonly isJob?: boolean;
}

/** The part of a bus that a client uses. Answers arrive below the subject that `newInbox` returns. */
export type ClientBus = Pick<Bus, "publish" | "subscribe" | "newInbox" | "payloadMax">;

const IN_FLIGHT_MAX = 65_536;
const TIMEOUT_MS = 10_000;

/**
 * Sends requests and receives their answers. Every `infer` settles exactly once: with the outputs, or with a TuttiError
 * whose `code` and `retryable` say what happened. When the answer is lost (its ingress died), that is UNAVAILABLE
 * within the deadline plus 100 ms (docs/architecture.md, T1).
 */
export class TuttiClient {
  readonly #bus: ClientBus;
  readonly #app: string;
  readonly #telemetry: Telemetry | undefined;
  readonly #inFlightMax: number;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #inbox: ReplyInbox;
  readonly #inFlight = new Set<Flight>();
  /** Background jobs of this client's application. */
  readonly jobs: JobClient;
  #closed = false;

  constructor(bus: ClientBus, options: ClientOptions = {}) {
    this.#bus = bus;
    this.#app = options.app ?? "default";
    this.#telemetry = options.telemetry;
    this.#inFlightMax = options.inFlightMax ?? IN_FLIGHT_MAX;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#retries = options.retries ?? 0;
    this.#inbox = new ReplyInbox(bus);
    this.jobs = new JobClient(bus, this.#inbox, this.#app);
  }

  /** Answers without a waiting request: after their deadline, after a cancel, or a second time. */
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
  async infer(
    target: string,
    inputs: Readonly<Record<string, TensorInput>>,
    options: InferOptions = {},
  ): Promise<InferResult> {
    const tensors = inputsToWire(inputs);
    const { outputs, ...answer } = await this.inferTensors(target, tensors, options);
    return { ...answer, outputs: Object.fromEntries(outputs.map((output) => [output.name, tensorValue(output)])) };
  }

  /**
   * As `infer`, with tensors in their wire form: for callers that only pass them on.
   *
   * @throws {TuttiError} as a rejection
   */
  inferTensors(target: string, inputs: readonly Tensor[], options: TensorOptions = {}): Promise<TensorAnswer> {
    return new Promise((resolve, reject) => {
      const { signal } = options;
      const { call, span } = this.#prepare(target, inputs, options);
      const startedAt = now();
      const onAbort = (): void => flight.cancel(cancelled(signal));
      const flight = new Flight({
        bus: this.#bus,
        inbox: this.#inbox,
        call,
        onRetry: (error) => span?.event("tried again", now(), { code: error.code, reason: error.message }),
        done: (result) => {
          this.#inFlight.delete(flight);
          signal?.removeEventListener("abort", onAbort);
          if (span !== undefined) endSpan(span, result, { slo: call.slo, startedAt });
          if (result instanceof TuttiError) reject(result);
          else resolve(result);
        },
      });
      this.#inFlight.add(flight);
      signal?.addEventListener("abort", onAbort, { once: true });
      flight.begin();
    });
  }

  /** Ends the requests in flight with CANCELLED. The bus stays open: it belongs to the caller that made it. */
  close(): void {
    this.#closed = true;
    this.jobs.close();
    for (const flight of [...this.#inFlight]) flight.cancel(new TuttiError("TUTTI_CANCELLED", "the client was closed"));
    this.#inbox.close();
  }

  #prepare(
    target: string,
    inputs: readonly Tensor[],
    options: TensorOptions,
  ): { readonly call: Call; readonly span: Span | undefined } {
    if (this.#closed) throw new TuttiError("TUTTI_UNAVAILABLE", "the client is closed", { retryable: false });
    if (options.signal?.aborted === true) throw cancelled(options.signal);
    if (this.#inFlight.size >= this.#inFlightMax) {
      throw new TuttiError("TUTTI_OVERLOADED", `this client has ${this.#inFlightMax} requests in flight already`);
    }
    const app = options.app ?? this.#app;
    if (!isModelName(target)) throw invalid(`"${target}" is no name of a model: ${NAME_RULE}`);
    checkApp(app);
    const { size } = options;
    if (size !== undefined && !(size > 0 && size <= SIZE_HINT_MAX))
      throw invalid(`a size of ${size}: give a number above zero and up to ${SIZE_HINT_MAX}`);
    const costs = costsOf(options);
    const slo = costs?.[0]!.after ?? durationOf(options.slo);
    if (slo !== undefined && !(slo > 0 && slo <= SLO_US_MAX))
      throw invalid("an SLO is above zero and at most 10 min (SLO_US_MAX)");
    checkText("id", options.id);
    checkText("version", options.version);
    if (options.outputs !== undefined && !Array.isArray(options.outputs))
      throw invalid('outputs: give a list of names, such as ["y"]');
    checkText("outputs", options.outputs?.join(","));
    const retries = options.retries ?? this.#retries;
    if (!Number.isInteger(retries) || retries < 0) throw invalid(`${retries} retries: give a whole number`);
    const form = options.form ?? "binary";
    if (!Object.hasOwn(CONTENT, form)) throw invalid(`"${form}" is no form: ${Object.keys(CONTENT).join(", ")}`);
    const payload = encodeRequest(form, {
      inputs,
      ...(options.outputs !== undefined && { outputs: options.outputs }),
      ...(options.id !== undefined && { id: options.id }),
    });
    const parent = parseTraceparent(options.traceparent);
    const span = this.#telemetry?.tracer.start(`infer ${target}`, {
      kind: "producer",
      at: now(),
      ...(parent !== undefined && { parent }),
      attributes: { "messaging.system": "nats", "tutti.model": target, "tutti.app": app },
    });
    const last = costs?.at(-1)!.after ?? slo;
    const coldStart = durationOf(options.coldStart) ?? 0;
    const waitMs = (last === undefined ? this.#timeoutMs : Math.ceil(last / 1000)) + Math.ceil(coldStart / 1000);
    const within = durationOf(options.within);
    const id = options.id ?? (retries > 0 ? crypto.randomUUID() : undefined);
    const call = {
      target,
      app,
      subject: inferSubject(target, app),
      payload,
      headers: headersOf({ form, slo, costs, id }, options, span),
      slo,
      costs,
      worthMs: last === undefined ? Infinity : last / 1000,
      waitMs,
      retries,
      withinMs: within === undefined ? (retries + 1) * (waitMs + GRACE_MS) : within / 1000,
    };
    return { call, span };
  }
}

/** A refusal is always recorded, and so is an answer that came after its SLO. */
function endSpan(
  span: Span,
  result: TensorAnswer | TuttiError,
  { slo, startedAt }: { readonly slo: Micros | undefined; readonly startedAt: Instant },
): void {
  const at = now();
  const error = result instanceof TuttiError ? result : undefined;
  if (error !== undefined) span.event("refused", at, { code: error.code, reason: error.message });
  if (error !== undefined || (slo !== undefined && at - startedAt > slo)) span.keep();
  span.set({ "tutti.outcome": error?.code ?? "ok" });
  span.end(at, error?.message);
}

interface HeaderTerms {
  readonly form: Form;
  readonly slo: Micros | undefined;
  readonly costs: readonly CostOffset[] | undefined;
  readonly id: string | undefined;
}

function headersOf(
  { form, slo, costs, id }: HeaderTerms,
  options: TensorOptions,
  span: Span | undefined,
): Record<string, string> {
  const headers: Record<string, string> = { [HEADER.contentType]: CONTENT[form] };
  if (slo !== undefined) headers[HEADER.slo] = `${slo}us`;
  if (costs !== undefined) headers[HEADER.costs] = formatCosts(costs);
  if (options.outputs !== undefined) headers[HEADER.outputs] = options.outputs.join(",");
  if (options.version !== undefined) headers[HEADER.version] = options.version;
  if (options.priority !== undefined) headers[HEADER.priority] = String(options.priority);
  if (options.size !== undefined) headers[HEADER.size] = String(options.size);
  if (options.isJob === true) headers[HEADER.job] = "1";
  if (id !== undefined) headers[HEADER.messageId] = id;
  const context = span?.context ?? parseTraceparent(options.traceparent);
  if (context !== undefined) headers[HEADER.traceparent] = formatTraceparent(context);
  return headers;
}

/** @throws {TuttiError} INVALID_INPUT */
export function checkApp(app: string): void {
  if (!isName(app)) throw invalid(`"${app}" is no name of an application: ${NAME_RULE}`);
}

/** A text that becomes a header: what follows a line break would be another one. @throws {TuttiError} INVALID_INPUT */
function checkText(what: string, text: unknown): void {
  if (text === undefined || (typeof text === "string" && !CONTROL.test(text))) return;
  throw invalid(`${what}: give a text without line breaks and other control characters`);
}
const CONTROL = /[\x00-\x1f\x7f]/;

function costsOf({ costs, slo }: InferOptions): readonly CostOffset[] | undefined {
  if (costs === undefined) return undefined;
  if (slo !== undefined) throw invalid("the first step of the costs is the SLO: leave slo out");
  if (!Array.isArray(costs) || !costs.every(isStep))
    throw invalid('costs: give a list of steps: [{ after: "25ms", cost: 1 }, { after: "100ms", cost: 3 }]');
  const checked = checkedCosts(costs.map(({ after, cost }) => ({ after: durationOf(after), cost })));
  if (typeof checked === "string") throw invalid(`costs: ${checked}`);
  return checked;
}

/** Callers without types may give a header's text, or a pair. */
function isStep(step: unknown): boolean {
  if (typeof step !== "object" || step === null) return false;
  const { after, cost } = step as Readonly<Record<string, unknown>>;
  return (typeof after === "string" || typeof after === "number") && typeof cost === "number";
}

function durationOf(given: string | number): Micros;
function durationOf(given: string | number | undefined): Micros | undefined;
function durationOf(given: string | number | undefined): Micros | undefined {
  if (given === undefined) return undefined;
  const duration = parseDuration(typeof given === "number" ? `${given}ms` : given);
  if (duration === undefined)
    throw invalid(`"${given}" is no length of time: write 25ms, 1.5s or a number of milliseconds`);
  return duration;
}

function cancelled(signal: CancelSignal | undefined): TuttiError {
  return new TuttiError("TUTTI_CANCELLED", "cancelled by the caller", { cause: signal?.reason });
}

const now = (): Instant => Math.round((performance.timeOrigin + performance.now()) * 1000) as Instant;
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
