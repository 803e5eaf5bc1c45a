/** One call, from its first attempt to its single outcome. */
import type { Delivery } from "@tutti/ports/bus";
import { type CostOffset, HEADER, TuttiError, cancelSubject, formatCosts } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import { type TensorAnswer, readAnswer } from "./answer.ts";
import type { ClientBus } from "./client.ts";
import type { ReplyInbox } from "./reply-inbox.ts";

/** Wait after the deadline before an answer counts as lost: the ingress answers by the deadline. T1 allows 100 ms. */
export const GRACE_MS = 60;
/** Pause before the second attempt where the error gives no time; doubled with each attempt. */
const PAUSE_MS = 5;
/**
 * Least remaining part of the SLO for a retry. With less, a retry would mostly be refused, and take time from feasible
 * requests.
 */
const SENSIBLE = 0.5;

export interface Call {
  readonly target: string;
  readonly app: string;
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: the model's own, which only the ingress knows. */
  readonly slo: Micros | undefined;
  /** Steps of costs, whose first is the SLO. */
  readonly costs: readonly CostOffset[] | undefined;
  /** Time until which an answer is worth something; Infinity: the model's SLO, which only the ingress knows. */
  readonly worthMs: number;
  /** How long an attempt waits at most, without the grace. */
  readonly waitMs: number;
  readonly retries: number;
  /** Time for all attempts together. */
  readonly withinMs: number;
}

/** One attempt: the inbox token of its answer, and whether the bus took the request. */
interface Attempt {
  readonly token: number;
  readonly isSent: boolean;
}

/**
 * Attempts follow one another, and each has a reply subject of its own. An early failure is retried after a pause;
 * silence counts as a loss only when the attempt's time is over. Outputs of any attempt settle the call, since all
 * attempts ask for the same; errors count only from the last one.
 */
export class Flight {
  readonly #bus: ClientBus;
  readonly #inbox: ReplyInbox;
  readonly #call: Call;
  readonly #done: (result: TensorAnswer | TuttiError) => void;
  readonly #onRetry: (error: TuttiError) => void;
  readonly #startedAt = performance.now();
  readonly #attempts: Attempt[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isSettled = false;

  constructor(parts: {
    readonly bus: ClientBus;
    readonly inbox: ReplyInbox;
    readonly call: Call;
    /** Called once. */
    readonly done: (result: TensorAnswer | TuttiError) => void;
    /** An attempt failed, and another one follows. */
    readonly onRetry: (error: TuttiError) => void;
  }) {
    this.#bus = parts.bus;
    this.#inbox = parts.inbox;
    this.#call = parts.call;
    this.#done = parts.done;
    this.#onRetry = parts.onRetry;
  }

  begin(): void {
    this.#attempt(this.#call.waitMs);
  }

  /** Settles the call with `error`; a CANCELLED error also tells the ingress, so that it does not run the request. */
  cancel(error: TuttiError): void {
    this.#settle(error);
  }

  #attempt(waitMs: number): void {
    const attempt = this.#attempts.length;
    const token = this.#inbox.expect((answer) => this.#onAnswer(attempt, answer));
    this.#timer = setTimeout(() => this.#onSilence(waitMs), waitMs + GRACE_MS);
    const { subject, payload } = this.#call;
    const reply = this.#inbox.subjectOf(token);
    const isSent = this.#bus.publish(subject, payload, {
      reply,
      headers: this.#headersFor(waitMs),
      // Another attempt would send it again.
      owned: this.#call.retries === 0,
    });
    this.#attempts.push({ token, isSent });
    if (!isSent) this.#fail(this.#unsent());
  }

  #headersFor(waitMs: number): Readonly<Record<string, string>> {
    const { headers, slo, costs = [], worthMs } = this.#call;
    if (slo === undefined || waitMs >= worthMs) return headers;
    const left = Math.floor(waitMs * 1_000);
    const { [HEADER.costs]: _, ...others } = headers;
    // The steps that can still be met.
    const steps = costs.filter(({ after }) => after <= left);
    if (steps.length > 0) return { ...others, [HEADER.costs]: formatCosts(steps) };
    return { ...others, [HEADER.slo]: `${Math.min(slo, left)}us` };
  }

  #onAnswer(attempt: number, answer: Delivery): void {
    const result = readAnswer(answer, this.#call.target);
    if (!(result instanceof TuttiError)) this.#settle(result);
    else if (attempt === this.#attempts.length - 1) this.#fail(result);
  }

  #onSilence(waitMs: number): void {
    const { target } = this.#call;
    const text = `no answer from ${target} within ${Math.round(waitMs)} ms: its ingress may have died`;
    this.#fail(new TuttiError("TUTTI_UNAVAILABLE", text));
  }

  #fail(error: TuttiError): void {
    clearTimeout(this.#timer);
    const { retries, withinMs, waitMs } = this.#call;
    const tried = this.#attempts.length;
    const pauseMs = Math.max(error.retryAfterMs ?? 0, PAUSE_MS * 2 ** (tried - 1));
    const leftMs = withinMs - (performance.now() - this.#startedAt) - pauseMs;
    if (tried > retries || !error.retryable || leftMs < waitMs * SENSIBLE) return this.#settle(error);
    this.#onRetry(error);
    this.#timer = setTimeout(() => this.#attempt(Math.min(waitMs, leftMs)), pauseMs);
  }

  #settle(result: TensorAnswer | TuttiError): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    const isCancelled = result instanceof TuttiError && result.code === "TUTTI_CANCELLED";
    this.#attempts.forEach(({ token, isSent }, i) => {
      const isOpen = this.#inbox.forget(token);
      const isLast = i === this.#attempts.length - 1;
      // The first attempt's answer may come while the second is in flight.
      if (isOpen && isSent && isLast && (isCancelled || !(result instanceof TuttiError))) this.#tellCancelled(token);
    });
    this.#done(result);
  }

  #tellCancelled(token: number): void {
    this.#bus.publish(cancelSubject(this.#call.app), new TextEncoder().encode(this.#inbox.subjectOf(token)));
  }

  #unsent(): TuttiError {
    const { byteLength } = this.#call.payload;
    if (byteLength > this.#bus.payloadMax) {
      const limit = `the server takes at most ${this.#bus.payloadMax} bytes in one message`;
      return new TuttiError("TUTTI_TOO_LARGE", `the request has ${byteLength} bytes; ${limit}`);
    }
    return new TuttiError("TUTTI_UNAVAILABLE", "not connected to a NATS server at the moment");
  }
}
