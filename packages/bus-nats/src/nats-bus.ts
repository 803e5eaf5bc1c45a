import { randomBytes } from "node:crypto";
import {
  type Bus,
  type BusFailure,
  type BusStatus,
  type Delivery,
  type DeliverySubscription,
  type PublishOptions,
  REQUESTS_MAX,
  type RequestOptions,
  type ServiceInfo,
  type SubscribeOptions,
  type Subscription,
  answerServices,
  isPattern,
} from "@tutti/ports/bus";
import { type NatsConnection as Connection, type Msg, type Status, errors } from "@nats-io/transport-node";
import { EventLoopLag, SLOW_MS } from "./event-loop-lag.ts";
import { NatsDelivery, OutgoingHeaders, isNoResponders } from "./nats-delivery.ts";

type LibraryOptions = NonNullable<Parameters<Connection["publish"]>[2]>;

interface PendingRequest {
  readonly done: (result: Delivery | BusFailure) => void;
  readonly timer: NodeJS.Timeout;
}

/** Payloads up to this size are copied: the copy costs less than a write of its own. */
const COPIED_BYTES_MAX = 8_192;
/** Longest wait for a server that no longer answers while a connection is being closed. */
const CLOSE_FLUSH_MS = 2_000;

/** The bus port on one NATS connection. */
export class NatsBus implements Bus {
  readonly #connection: Connection;
  readonly #inbox: string;
  readonly #startedAt = new Date();
  readonly #listeners = new Set<(status: BusStatus) => void>();
  readonly #requests = new Map<number, PendingRequest>();
  readonly #closed: Promise<void>;
  readonly #writeNow: (() => void) | undefined;
  readonly #lag: EventLoopLag;
  #payloadMax: number;
  #connected = true;
  #closing = false;
  #token = 0;
  #inboxes = 0;

  /** @param connection - connected, made with `noAsyncTraces` */
  constructor(connection: Connection, inboxPrefix: string) {
    this.#connection = connection;
    this.#payloadMax = connection.info?.max_payload ?? 1_048_576;
    this.#inbox = `${inboxPrefix}.${randomBytes(12).toString("base64url")}`;
    // One inbox for all requests: a subscription per request costs the server five times as much (docs/architecture.md,
    // 8).
    connection.subscribe(`${this.#inbox}.r.*`, {
      callback: (error, message) => {
        if (error === null) this.#onAnswer(message);
      },
    });
    this.#writeNow = writerOf(connection);
    this.#closed = connection.closed().then((error) => this.#onClosed(error instanceof Error ? error : undefined));
    this.#lag = new EventLoopLag({
      flush: () => connection.flush(),
      received: receivedOf(connection),
      onSlow: (lagMs, stoodStillMs) => this.#onSlow(lagMs, stoodStillMs),
      onSilent: (lagMs) => this.#tell({ kind: "silent", lagMs }),
      onHeard: (lagMs) => this.#tell({ kind: "heard", lagMs }),
    });
    void this.#followStatus();
  }

  get payloadMax(): number {
    return this.#payloadMax;
  }
  get connected(): boolean {
    return this.#connected;
  }

  publish(subject: string, payload: Uint8Array, options?: PublishOptions): boolean {
    if (!this.#connected) return false;
    try {
      if (options !== undefined) return this.#publishWith(subject, payload, options);
      if (payload.length > this.#payloadMax) return false;
      this.#send(subject, payload, undefined);
      return true;
    } catch (error) {
      // An impossible subject, or the connection is closing.
      this.#tell({ kind: "error", text: `publishing to ${subject}: ${textOf(error)}` });
      return false;
    }
  }

  subscribe(
    pattern: string,
    onDelivery: (delivery: Delivery) => void,
    options: SubscribeOptions = {},
  ): DeliverySubscription {
    if (!isPattern(pattern) || this.#connection.isClosed()) {
      this.#tell({ kind: "error", text: `${pattern} cannot be subscribed to` });
      return { stop: () => {}, drain: (done) => queueMicrotask(() => this.#perform(done)) };
    }
    const subscription = this.#connection.subscribe(pattern, {
      ...(options.queue !== undefined && { queue: options.queue }),
      callback: (error, message) => {
        if (error !== null) return; // a refused subscription: the status says so, once
        try {
          onDelivery(new NatsDelivery(message));
        } catch (thrown) {
          this.#report(thrown);
        }
      },
    });
    return {
      stop: () => subscription.unsubscribe(),
      drain: (done) => {
        const finish = (): void => this.#perform(done);
        // The library would wait for the next connection, which brings no message of this one.
        if (!this.#connected || subscription.isClosed()) {
          subscription.unsubscribe();
          queueMicrotask(finish);
        } else subscription.drain().then(finish, finish);
      },
    };
  }

  request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
    done: (result: Delivery | BusFailure) => void,
  ): void {
    const fail = (failure: BusFailure["failure"]) => queueMicrotask(() => this.#perform(() => done({ failure })));
    if (!this.#connected) return fail("closed");
    if (this.#requests.size >= REQUESTS_MAX) return fail("timeout");
    const token = ++this.#token;
    const reply = `${this.#inbox}.r.${token.toString(36)}`;
    if (!this.publish(subject, payload, { ...options, reply })) {
      return fail(payload.length > this.#payloadMax - 1024 ? "too-large" : "closed");
    }
    const timer = setTimeout(() => this.#settle(token, { failure: "timeout" }), options.timeoutMs);
    this.#requests.set(token, { done, timer });
  }

  newInbox(): string {
    return `${this.#inbox}.${(++this.#inboxes).toString(36)}`;
  }

  flush(done: (reached: boolean) => void): void {
    const answer = (reached: boolean) => this.#perform(() => done(reached));
    if (!this.#connected) return queueMicrotask(() => answer(false));
    this.#connection.flush().then(
      () => answer(true),
      () => answer(false),
    );
  }

  onStatus(listener: (status: BusStatus) => void): Subscription {
    this.#listeners.add(listener);
    return { stop: () => this.#listeners.delete(listener) };
  }

  announce(service: ServiceInfo): Subscription {
    return answerServices(this, service, this.#startedAt);
  }

  close(done: () => void): void {
    void this.#closed.then(() => this.#perform(done));
    if (this.#closing) return;
    this.#closing = true;
    const timer = setTimeout(() => void this.#connection.close(), CLOSE_FLUSH_MS);
    // The library answers no flush on a connection that it gives up meanwhile, such as one whose credentials have
    // expired.
    this.flush(() => {
      clearTimeout(timer);
      void this.#connection.close();
    });
  }

  /**
   * Sends a payload so that the caller may reuse it at once, as the port promises. The library keeps a reference until
   * it writes, at the end of the turn. Small ones are copied. Large ones are written now: writing copies them anyway,
   * and a second copy of 150 KB would cost 15 µs.
   */
  #send(subject: string, payload: Uint8Array, options: LibraryOptions | undefined): void {
    if (payload.length <= COPIED_BYTES_MAX || this.#writeNow === undefined) {
      this.#connection.publish(subject, new Uint8Array(payload), options);
    } else {
      this.#connection.publish(subject, payload, options);
      this.#writeNow();
    }
  }

  #publishWith(subject: string, payload: Uint8Array, options: PublishOptions): boolean {
    const { reply, headers } = options;
    if (headers === undefined) {
      if (payload.length > this.#payloadMax) return false;
      this.#send(subject, payload, reply === undefined ? undefined : { reply });
      return true;
    }
    const outgoing = OutgoingHeaders.of(headers);
    if (outgoing === undefined) {
      this.#tell({ kind: "error", text: `a header for ${subject} has a line break, or a name that is none` });
      return false;
    }
    if (payload.length + outgoing.length > this.#payloadMax) return false;
    this.#send(subject, payload, {
      headers: outgoing.asMsgHdrs(),
      ...(reply !== undefined && { reply }),
    });
    return true;
  }

  #onAnswer(message: Msg): void {
    const token = parseInt(message.subject.slice(this.#inbox.length + 3), 36);
    if (this.#requests.has(token)) {
      this.#settle(token, isNoResponders(message) ? { failure: "no-responders" } : new NatsDelivery(message));
    }
  }

  #settle(token: number, result: Delivery | BusFailure): void {
    const request = this.#requests.get(token);
    if (request === undefined) return;
    this.#requests.delete(token);
    clearTimeout(request.timer);
    this.#perform(() => request.done(result));
  }

  /** Fails pending requests at once. The library would let them time out, though no answer can come any more. */
  #failRequests(): void {
    for (const token of [...this.#requests.keys()]) this.#settle(token, { failure: "closed" });
  }

  async #followStatus(): Promise<void> {
    for await (const status of this.#connection.status()) this.#onStatusOf(status);
  }

  #onStatusOf(status: Status): void {
    switch (status.type) {
      case "disconnect":
        this.#connected = false;
        this.#failRequests();
        this.#explainCut();
        return this.#tell({ kind: "disconnected" });
      case "reconnect":
        this.#connected = true;
        this.#payloadMax = this.#connection.info?.max_payload ?? this.#payloadMax;
        return this.#tell({ kind: "reconnected", server: status.server });
      case "error":
        if (status.error instanceof errors.PermissionViolationError) {
          const { subject, message } = status.error;
          return this.#tell({ kind: "permission-denied", subject, text: message });
        }
        return this.#tell({ kind: "error", text: textOf(status.error) });
      case "ldm":
        return this.#tell({ kind: "error", text: `${status.server} is about to shut down` });
      default:
        return;
    }
  }

  #onSlow(lagMs: number, stoodStillMs: number): void {
    const cause = stoodStillMs === 0 ? "a slow consumer" : stoodStillText(stoodStillMs);
    const text = `what comes is read ${(lagMs / 1_000).toFixed(1)} s late: ${cause}`;
    this.#tell({ kind: "slow-consumer", lagMs, stoodStillMs, text });
  }

  #explainCut(): void {
    const { lagMs, stoodStillMs, isSilent } = this.#lag;
    if (isSilent) return; // this was told
    // A shorter standstill doesn't cost a connection: the server was ended, or the network.
    if (stoodStillMs >= SLOW_MS)
      this.#tell({ kind: "error", text: `the connection was lost: ${stoodStillText(stoodStillMs)}` });
    else if (lagMs >= SLOW_MS) this.#tell({ kind: "error", text: "the server cut off a slow consumer, or hung" });
  }

  #onClosed(error: Error | undefined): void {
    this.#connected = false;
    this.#lag.stop();
    this.#failRequests();
    this.#tell({ kind: "closed", reason: error === undefined ? "closed by its owner" : textOf(error) });
  }

  #perform(run: () => void): void {
    try {
      run();
    } catch (thrown) {
      this.#report(thrown);
    }
  }

  /**
   * Reports the error that an owner's callback threw to the listeners. Without listeners it is thrown again, in a turn
   * of its own.
   */
  #report(thrown: unknown): void {
    if (this.#listeners.size === 0) {
      queueMicrotask(() => {
        throw thrown;
      });
    }
    this.#tell({ kind: "error", text: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) });
  }

  /** Reports in a later turn, never within the call that caused it: a listener may publish again. */
  #tell(status: BusStatus): void {
    queueMicrotask(() => {
      for (const listener of this.#listeners) listener(status);
    });
  }
}

/**
 * The library's own way to write the queue, not part of its interface. Where a version lacks it, payloads are copied
 * instead.
 */
function writerOf(connection: Connection): (() => void) | undefined {
  const { protocol } = connection as { readonly protocol?: { flushPending?: () => void } };
  return typeof protocol?.flushPending === "function" ? () => protocol.flushPending?.() : undefined;
}

/** Counts what comes in bytes, since a long message is counted as one when it is there; in messages if it can't. */
function receivedOf(connection: Connection): () => number {
  const { protocol } = connection as { readonly protocol?: { transport?: { socket?: { bytesRead?: number } } } };
  return () => protocol?.transport?.socket?.bytesRead ?? connection.stats().inMsgs;
}

const stoodStillText = (ms: number): string =>
  `this process stood still for ${(ms / 1_000).toFixed(1)} s (stopped, without CPU time, or in one long task)`;

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
