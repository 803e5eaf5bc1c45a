import type { Delivery, Subscription } from "@tutti/ports/bus";
import type { ClientBus } from "./client.ts";

/** Callback of a waiting request. Called exactly once, in the turn in which the answer comes. */
export type OnAnswer = (answer: Delivery) => void;

/**
 * One subscription for all answers of a client: each request's reply subject ends in an integer token. A request built
 * this way costs a tenth of one with a subscription or a request object of its own (docs/architecture.md, 8).
 */
export class ReplyInbox {
  readonly #prefix: string;
  readonly #waiting = new Map<number, OnAnswer>();
  readonly #subscription: Subscription;
  #lastToken = 0;
  /** Answers without a waiting request: they came after their deadline, after a cancel, or a second time. */
  late = 0;

  constructor(bus: ClientBus) {
    this.#prefix = `${bus.newInbox()}.`;
    this.#subscription = bus.subscribe(`${this.#prefix}*`, (delivery) => this.#onDelivery(delivery));
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Tokens are never given twice, so an old answer can't reach a newer request. */
  expect(onAnswer: OnAnswer): number {
    const token = ++this.#lastToken;
    this.#waiting.set(token, onAnswer);
    return token;
  }

  subjectOf(token: number): string {
    return this.#prefix + token.toString(36);
  }

  /** @returns false when it was answered already */
  forget(token: number): boolean {
    return this.#waiting.delete(token);
  }

  close(): void {
    this.#subscription.stop();
    this.#waiting.clear();
  }

  #onDelivery(delivery: Delivery): void {
    const token = Number.parseInt(delivery.subject.slice(this.#prefix.length), 36);
    const onAnswer = this.#waiting.get(token);
    if (onAnswer === undefined) {
      this.late++;
      return;
    }
    this.#waiting.delete(token);
    onAnswer(delivery);
  }
}
