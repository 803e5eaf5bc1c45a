import { assert } from "@tutti/units";
import {
  type Bus,
  type BusFailure,
  type BusStatus,
  type Delivery,
  type DeliverySubscription,
  type PublishOptions,
  type RequestOptions,
  type ServiceInfo,
  type SubscribeOptions,
  type Subscription,
  isBusFailure,
} from "./bus.ts";
import type { InMemoryNetwork } from "./in-memory-network.ts";
import { answerServices } from "./services.ts";
import { isHeader, isPattern, isSubject } from "./subject.ts";

export interface InMemoryBusOptions {
  readonly name: string;
  /** Default: `_INBOX.<name>`. */
  readonly inboxPrefix?: string;
  /** It receives nothing that it publishes itself, as a NATS connection with `noEcho`. Default: false. */
  readonly noEcho?: boolean;
  /** Permissions of this connection, as in a server's user configuration. Default: everything. */
  readonly mayPublish?: (subject: string) => boolean;
  readonly maySubscribe?: (pattern: string) => boolean;
}

/** A subscription as the network sees it. */
export interface Interest {
  readonly bus: InMemoryBus;
  readonly pattern: string;
  readonly queue: string | undefined;
  readonly onDelivery: (delivery: Delivery) => void;
  live: boolean;
  /** Number of messages on their way to it. */
  onTheWay: number;
  /** Callbacks for when no message is on its way any more. */
  drained: (() => void)[];
}

/** Most requests of one connection that wait for an answer; one more fails as if it had timed out. */
export const REQUESTS_MAX = 65_536;

/** Number of breaks whose losses are remembered: messages from before them have long arrived. */
const BREAKS_KEPT = 8;

/** One connection to an InMemoryNetwork, which creates it (`network.connect`). */
export class InMemoryBus implements Bus {
  readonly name: string;
  readonly inboxPrefix: string;
  readonly noEcho: boolean;
  readonly mayPublish: (subject: string) => boolean;
  readonly maySubscribe: (pattern: string) => boolean;
  readonly #network: InMemoryNetwork;
  readonly #listeners = new Set<(status: BusStatus) => void>();
  readonly #requests = new Map<number, { settle(result: Delivery | BusFailure): void }>();
  #state: "connected" | "away" | "closed" = "connected";
  /**
   * False from a reconnect until its owner can know of it. Only then can the connection be published to, as on NATS.
   */
  #isTold = true;
  #inboxes = 0;
  #token = 0;
  /** Messages that it has published, and the number of them that a flush has confirmed. */
  #published = 0;
  #confirmed = 0;
  #breaks = 0;
  /** Number ranges of messages that were lost with the connection, the newest last. */
  readonly #lost: { readonly after: number; readonly upTo: number }[] = [];

  constructor(network: InMemoryNetwork, options: InMemoryBusOptions) {
    this.#network = network;
    this.name = options.name;
    this.inboxPrefix = options.inboxPrefix ?? `_INBOX.${options.name}`;
    this.noEcho = options.noEcho ?? false;
    this.mayPublish = options.mayPublish ?? (() => true);
    this.maySubscribe = options.maySubscribe ?? (() => true);
    assert(isSubject(this.inboxPrefix), `${this.inboxPrefix} is no inbox prefix`);
    network.add(this.#interest(`${this.inboxPrefix}.r.*`, undefined, (delivery) => this.#onAnswer(delivery)));
  }

  get payloadMax(): number {
    return this.#network.payloadMax;
  }
  /** For the network: true while messages reach this connection. */
  get isReached(): boolean {
    return this.#state === "connected";
  }
  get connected(): boolean {
    return this.#state === "connected" && this.#isTold;
  }

  publish(subject: string, payload: Uint8Array, options: PublishOptions = {}): boolean {
    if (!this.connected || payload.length + headerBytes(options) > this.payloadMax) return false;
    if (!isSubject(subject) || (options.reply !== undefined && !isSubject(options.reply))) {
      this.tell({ kind: "error", text: `${subject} cannot be published to, or its reply subject cannot` });
      return false;
    }
    const { headers } = options;
    if (headers !== undefined && !Object.entries(headers).every(([name, value]) => isHeader(name, value))) {
      this.tell({ kind: "error", text: `a header for ${subject} has a line break, or a name that is none` });
      return false;
    }
    if (!this.mayPublish(subject)) {
      this.tell({ kind: "permission-denied", subject, text: `${this.name} may not publish to ${subject}` });
      return true; // as on the wire: the refusal comes later
    }
    this.#published++;
    this.#network.route(this, subject, payload, options);
    return true;
  }

  subscribe(
    pattern: string,
    onDelivery: (delivery: Delivery) => void,
    options: SubscribeOptions = {},
  ): DeliverySubscription {
    const interest = this.#interest(pattern, options.queue, onDelivery);
    if (this.#state === "closed" || !isPattern(pattern)) {
      this.tell({ kind: "error", text: `${pattern} cannot be subscribed to` });
    } else if (!this.maySubscribe(pattern)) {
      this.tell({ kind: "permission-denied", subject: pattern, text: `${this.name} may not subscribe to ${pattern}` });
    } else {
      this.#network.add(interest);
    }
    return {
      stop: () => this.#network.remove(interest),
      drain: (done) => this.#network.drain(interest, () => this.perform(done)),
    };
  }

  #interest(pattern: string, queue: string | undefined, onDelivery: (delivery: Delivery) => void): Interest {
    return { bus: this, pattern, queue, onDelivery, live: true, onTheWay: 0, drained: [] };
  }

  request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
    done: (result: Delivery | BusFailure) => void,
  ): void {
    const fail = (failure: BusFailure["failure"]) => this.#network.later(() => this.perform(() => done({ failure })));
    if (!this.connected) return fail("closed");
    if (payload.length + headerBytes(options) > this.payloadMax) return fail("too-large");
    if (this.#requests.size >= REQUESTS_MAX) return fail("timeout");
    const token = ++this.#token;
    const timer = this.#network.startTimer(options.timeoutMs, () => settle({ failure: "timeout" }));
    const settle = (result: Delivery | BusFailure): void => {
      timer.stop();
      if (!this.#requests.delete(token)) return;
      if (isBusFailure(result)) this.#network.later(() => this.perform(() => done(result)));
      else this.perform(() => done(result));
    };
    this.#requests.set(token, { settle });
    const sent = this.publish(subject, payload, { ...options, reply: `${this.inboxPrefix}.r.${token}` });
    if (!sent) settle({ failure: "closed" });
  }

  newInbox(): string {
    return `${this.inboxPrefix}.i.${++this.#inboxes}`;
  }

  flush(done: (reached: boolean) => void): void {
    const reached = this.connected;
    const { upTo, breaks } = { upTo: this.#published, breaks: this.#breaks };
    this.#network.later(() => {
      const confirmed = reached && this.connected && breaks === this.#breaks;
      if (confirmed) this.#confirmed = Math.max(this.#confirmed, upTo);
      this.perform(() => done(confirmed));
    });
  }

  onStatus(listener: (status: BusStatus) => void): Subscription {
    this.#listeners.add(listener);
    return { stop: () => this.#listeners.delete(listener) };
  }

  announce(service: ServiceInfo): Subscription {
    return answerServices(this, service, this.#network.startedAt);
  }

  close(done: () => void): void {
    if (this.#state !== "closed") {
      this.#state = "closed";
      this.#network.forget(this);
      this.#failRequests();
      this.tell({ kind: "closed", reason: "closed by its owner" });
    }
    this.#network.later(done);
  }

  /**
   * For tests and simulations: breaks the connection. Messages on their way to it are lost; its subscriptions are kept
   * for the reconnect.
   *
   * @param losing - `unconfirmed`: messages on their way from it are lost too, unless a flush has confirmed them
   */
  disconnect(losing: "nothing-sent" | "unconfirmed" = "nothing-sent"): void {
    if (this.#state !== "connected") return;
    this.#state = "away";
    this.#breaks++;
    if (losing === "unconfirmed") {
      this.#lost.push({ after: this.#confirmed, upTo: this.#published });
      if (this.#lost.length > BREAKS_KEPT) this.#lost.shift();
    }
    this.#network.interestChanged();
    this.#failRequests();
    this.tell({ kind: "disconnected" });
  }

  reconnect(): void {
    if (this.#state !== "away") return;
    this.#state = "connected";
    this.#isTold = false;
    const breaks = this.#breaks;
    this.#network.interestChanged();
    this.#network.later(() => {
      if (breaks === this.#breaks) this.#isTold = true;
    });
    this.tell({ kind: "reconnected", server: "in-memory" });
  }

  /** For the network: number of the message that is published now. `hasLost` says if a break has lost it since. */
  get published(): number {
    return this.#published;
  }
  hasLost(message: number): boolean {
    return this.#lost.some(({ after, upTo }) => message > after && message <= upTo);
  }

  /** Runs a callback of the owner. If it throws, the error is reported and nothing else breaks. */
  perform(run: () => void): void {
    try {
      run();
    } catch (error) {
      if (this.#listeners.size === 0) {
        this.#network.later(() => {
          throw error; // without listeners, a bug of the owner must not be swallowed
        });
      }
      this.tell({ kind: "error", text: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  }

  tell(status: BusStatus): void {
    this.#network.later(() => {
      for (const listener of this.#listeners) listener(status);
    });
  }

  #onAnswer(delivery: Delivery): void {
    const token = Number(delivery.subject.slice(this.inboxPrefix.length + 3));
    const noResponders = delivery.payload.length === 0 && delivery.header("Status") === "503";
    this.#requests.get(token)?.settle(noResponders ? { failure: "no-responders" } : delivery);
  }

  #failRequests(): void {
    for (const request of [...this.#requests.values()]) request.settle({ failure: "closed" });
  }
}

/** Bytes of the headers as NATS counts them: they are part of the message. */
function headerBytes(options: PublishOptions): number {
  if (options.headers === undefined) return 0;
  let bytes = 14; // the version line and the closing empty line
  for (const [name, value] of Object.entries(options.headers)) bytes += name.length + value.length + 4;
  return bytes;
}
