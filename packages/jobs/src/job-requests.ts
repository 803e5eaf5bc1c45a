import { readFailure } from "@tutti/client";
import type { Bus, Delivery, DeliverySubscription } from "@tutti/ports/bus";
import type { StoredResult } from "@tutti/ports/jobs";
import { HEADER, TuttiError, cancelSubject, inferSubject } from "@tutti/protocol";
import type { JobTerms } from "./job-terms.ts";

/** Headers of an answer that a result keeps. */
const KEPT: readonly string[] = [
  ...[HEADER.contentType, HEADER.model, HEADER.version, HEADER.batchSize, HEADER.queueUs],
  ...[HEADER.error, HEADER.errorCode],
];
/**
 * Longest that an ingress holds a job. Then it goes back to the queue, which costs little, and an ingress that died
 * with it has kept it no longer.
 */
const HELD_MS = 30_000;
/** Time after its deadline in which an ingress has answered that lives and does not wait for a parked model. */
const GRACE_MS = 15_000;

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
  readonly #name: string;
  readonly #randomToken: () => string;
  readonly #subscription: DeliverySubscription;
  readonly #waiting = new Map<string, Waiting>();

  /**
   * @param randomToken - a subject token that nobody can guess. An application hears the answers of its own inbox, so
   * one that knew another's tokens could answer its jobs
   */
  constructor(bus: Bus, randomToken: () => string) {
    this.#bus = bus;
    this.#name = randomToken();
    this.#randomToken = randomToken;
    this.#subscription = bus.subscribe(`_INBOX.*.jobs.${this.#name}.*`, (delivery) => this.#onAnswer(delivery));
  }

  /** @param done - called once, with the answer, or with the refusal that it was */
  send(terms: JobTerms, payload: Uint8Array, nowMs: number, done: Waiting["done"]): void {
    const { model, app, deadlineAtMs, headers } = terms;
    const token = this.#randomToken();
    const sloMs = Math.max(1, Math.min(deadlineAtMs - nowMs, HELD_MS));
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
      this.#cancel(terms, token);
      const text = `no answer from ${terms.model}: its ingress may have died`;
      this.#settle(token, new TuttiError("TUTTI_UNAVAILABLE", text));
    }
  }

  /** Withdraws all requests; their callbacks are not called any more. */
  close(): void {
    for (const [token, { terms }] of this.#waiting) this.#cancel(terms, token);
    this.#waiting.clear();
    this.#subscription.stop();
  }

  #onAnswer(delivery: Delivery): void {
    const token = delivery.subject.slice(delivery.subject.lastIndexOf(".") + 1);
    const terms = this.#waiting.get(token)?.terms;
    // Unknown: given up, or answered before. In another application's inbox: nobody who was asked answers there.
    if (terms === undefined || delivery.subject !== this.#replyOf(terms.app, token)) return;
    const failure = readFailure(delivery, terms.model);
    if (failure !== undefined) return this.#settle(token, failure);
    const headers = KEPT.flatMap((name) => {
      const value = delivery.header(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    this.#settle(token, { headers: Object.fromEntries(headers), payload: new Uint8Array(delivery.payload) });
  }

  #cancel({ app }: JobTerms, token: string): void {
    this.#bus.publish(cancelSubject(app), new TextEncoder().encode(this.#replyOf(app, token)));
  }

  #settle(token: string, answer: StoredResult | TuttiError): void {
    const waiting = this.#waiting.get(token);
    this.#waiting.delete(token);
    waiting?.done(answer);
  }

  #replyOf(app: string, token: string): string {
    return `_INBOX.${app}.jobs.${this.#name}.${token}`;
  }
}
