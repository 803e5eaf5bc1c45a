/**
 * Load over NATS. Each stream's request is encoded once, and no request needs a promise, a timer or decoding: one
 * process offers thousands of requests a second beside the cluster that it measures.
 */
import type { Bus, Delivery, Subscription } from "@tutti/ports/bus";
import { CONTENT, HEADER, inferSubject } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import { type Answer, OK_ANSWER, type Outgoing, type Target } from "./target.ts";

export interface NatsStream {
  /** Bus of the stream's application: answers come below that application's inbox. */
  readonly bus: Pick<Bus, "publish" | "subscribe" | "newInbox">;
  readonly model: string;
  readonly app: string;
  /** A request in binary form. */
  readonly payload: Uint8Array;
}

interface Route {
  readonly bus: NatsStream["bus"];
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly inbox: string;
}

export class NatsTarget implements Target {
  readonly held = 0;
  readonly #streams: readonly NatsStream[];
  readonly #headers = new Map<Micros, Readonly<Record<string, string>>>();
  #routes: readonly Route[] = [];
  #subscriptions: readonly Subscription[] = [];

  constructor(streams: readonly NatsStream[]) {
    this.#streams = streams;
  }

  open(onAnswer: (token: number, answer: Answer) => void): void {
    const inboxes = new Map<NatsStream["bus"], string>();
    for (const { bus } of this.#streams) if (!inboxes.has(bus)) inboxes.set(bus, `${bus.newInbox()}.`);
    this.#subscriptions = [...inboxes].map(([bus, inbox]) =>
      bus.subscribe(`${inbox}*`, (delivery) =>
        onAnswer(Number.parseInt(delivery.subject.slice(inbox.length), 36), answerOf(delivery)),
      ),
    );
    this.#routes = this.#streams.map(({ bus, model, app, payload }) => ({
      ...{ bus, payload, subject: inferSubject(model, app), inbox: inboxes.get(bus)! },
    }));
  }

  send({ token, stream, slo }: Outgoing): boolean {
    const { bus, subject, payload, inbox } = this.#routes[stream]!;
    return bus.publish(subject, payload, { reply: inbox + token.toString(36), headers: this.#headersFor(slo) });
  }

  forget(): void {}

  close(): void {
    for (const subscription of this.#subscriptions) subscription.stop();
  }

  /** Headers per SLO, cached: there are few SLOs and many requests. A trace may have many: then the oldest goes. */
  #headersFor(slo: Micros): Readonly<Record<string, string>> {
    const known = this.#headers.get(slo);
    if (known !== undefined) return known;
    if (this.#headers.size >= SLOS_KEPT) this.#headers.delete(this.#headers.keys().next().value!);
    const headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: `${slo}us` };
    this.#headers.set(slo, headers);
    return headers;
  }
}

const SLOS_KEPT = 1_024;
/** Answer when the server reports that nobody subscribes. */
const NO_RESPONDERS: Answer = { outcome: "TUTTI_UNAVAILABLE", retryAfterMs: 0 };

function answerOf(delivery: Delivery): Answer {
  const status = delivery.header(HEADER.errorCode);
  if (status !== undefined) return errorOf(delivery.payload, `status ${status}`);
  // No form of an answer is empty.
  return delivery.payload.byteLength === 0 ? NO_RESPONDERS : OK_ANSWER;
}

/** Reads a body `{"code": "TUTTI_…", "retryAfterMs": n}`; with any other code the outcome is `otherwise`. */
export function errorOf(body: Uint8Array, otherwise: string): Answer {
  try {
    const { code, retryAfterMs } = JSON.parse(new TextDecoder().decode(body)) as Record<string, unknown>;
    return {
      outcome: typeof code === "string" && /^[A-Z_]{1,64}$/.test(code) ? code : otherwise,
      retryAfterMs: typeof retryAfterMs === "number" && retryAfterMs > 0 ? retryAfterMs : 0,
    };
  } catch {
    return { outcome: otherwise, retryAfterMs: 0 };
  }
}
