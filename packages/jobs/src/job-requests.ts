import { readFailure } from "@tutti/client";
import type { Bus, Delivery, DeliverySubscription } from "@tutti/ports/bus";
import type { StoredResult } from "@tutti/ports/jobs";
import { HEADER, SLO_US_MAX, TuttiError, cancelSubject, inferSubject } from "@tutti/protocol";
import type { JobTerms } from "./job-terms.ts";

/** Headers of an answer that a result keeps. */
const KEPT: readonly string[] = [
  ...[HEADER.contentType, HEADER.model, HEADER.version, HEADER.batchSize, HEADER.queueUs],
  ...[HEADER.error, HEADER.errorCode],
];
/** Time after its deadline in which an ingress that lives has answered. */
const GRACE_MS = 1_000;

interface Waiting {
  readonly terms: JobTerms;
  readonly giveUpAtMs: number;
  readonly done: (answer: StoredResult | TuttiError) => void;
}

/**
 * Sends jobs to the ingresses as requests, in the bytes in which their publishers wrote them, and hands their answers
 * on in the bytes in which these came. One subscription hears the answers of all applications.
 */
export class JobRequests {
  readonly #bus: Bus;
  readonly #secret: string;
  readonly #subscription: DeliverySubscription;
  readonly #waiting = new Map<number, Waiting>();
  #lastToken = 0;

  /** @param secret - a subject token that nobody can guess, so that no other runner hears these answers */
  constructor(bus: Bus, secret: string) {
    this.#bus = bus;
    this.#secret = secret;
    this.#subscription = bus.subscribe(`_INBOX.*.jobs.${secret}.*`, (delivery) => this.#onAnswer(delivery));
  }

  /** @param done - called once, with the answer, or with the refusal that it was */
  send(terms: JobTerms, payload: Uint8Array, nowMs: number, done: Waiting["done"]): void {
    const { model, app, deadlineAtMs, headers } = terms;
    const token = ++this.#lastToken;
    const sloMs = Math.max(1, Math.min(deadlineAtMs - nowMs, SLO_US_MAX / 1_000));
    this.#waiting.set(token, { terms, giveUpAtMs: nowMs + sloMs + GRACE_MS, done });
    const isSent = this.#bus.publish(inferSubject(model, app), payload, {
      reply: this.#replyOf(app, token),
      headers: { ...headers, [HEADER.job]: "1", [HEADER.slo]: `${Math.floor(sloMs * 1_000)}us` },
    });
    if (!isSent)
      this.#settle(token, new TuttiError("TUTTI_UNAVAILABLE", "not connected to a NATS server at the moment"));
  }

  /** Gives up the requests whose ingress did not answer in time; call it about once a second. */
  expire(nowMs: number): void {
    for (const [token, { terms, giveUpAtMs }] of this.#waiting) {
      if (nowMs < giveUpAtMs) continue;
      const text = `no answer from ${terms.model}: its ingress may have died`;
      this.#settle(token, new TuttiError("TUTTI_UNAVAILABLE", text));
    }
  }

  /** Withdraws all requests; their callbacks are not called any more. */
  close(): void {
    const encoder = new TextEncoder();
    for (const [token, { terms }] of this.#waiting)
      this.#bus.publish(cancelSubject(terms.app), encoder.encode(this.#replyOf(terms.app, token)));
    this.#waiting.clear();
    this.#subscription.stop();
  }

  #onAnswer(delivery: Delivery): void {
    const token = Number.parseInt(delivery.subject.slice(delivery.subject.lastIndexOf(".") + 1), 36);
    const terms = this.#waiting.get(token)?.terms;
    if (terms === undefined) return; // given up, or answered before
    const failure = readFailure(delivery, terms.model);
    if (failure !== undefined) return this.#settle(token, failure);
    const headers = KEPT.flatMap((name) => {
      const value = delivery.header(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    this.#settle(token, { headers: Object.fromEntries(headers), payload: new Uint8Array(delivery.payload) });
  }

  #settle(token: number, answer: StoredResult | TuttiError): void {
    const waiting = this.#waiting.get(token);
    this.#waiting.delete(token);
    waiting?.done(answer);
  }

  #replyOf(app: string, token: number): string {
    return `_INBOX.${app}.jobs.${this.#secret}.${token.toString(36)}`;
  }
}
