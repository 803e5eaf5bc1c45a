/**
 * The bus port: subjects, queue groups, replies. Delivery is at most once and in order per publisher and subject.
 * Nothing is kept for absent subscribers. Calls never block and never throw: an error arrives as a status or a failure
 * value.
 */
export interface Bus {
  /** The server's announced limit for one message, in bytes, headers included. */
  readonly payloadMax: number;
  readonly connected: boolean;
  /**
   * Publishes. The payload may be reused once the call returns.
   * @returns false when it cannot be sent (too large, closed, disconnected): the message is then lost, as on the wire
   */
  publish(subject: string, payload: Uint8Array, options?: PublishOptions): boolean;
  /**
   * Subscribes to a subject; `*` matches one token, `>` the rest. Handlers run synchronously, one delivery after
   * another. A handler that throws is reported, and that is not fatal.
   */
  subscribe(
    subject: string,
    onDelivery: (delivery: Delivery) => void,
    options?: SubscribeOptions,
  ): DeliverySubscription;
  /**
   * One answer or a failure, once. It is for cold paths: hot ones have an inbox of their own (docs/architecture.md, 8).
   */
  request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
    done: (result: Delivery | BusFailure) => void,
  ): void;
  /**
   * True if a subscriber to this subject is reached without the server. Its messages then survive a lost connection.
   */
  isNear?(subject: string): boolean;
  /**
   * Publishes the segments as one message to a subscriber that a link reaches, without joining them first: they are
   * never changed again.
   * @returns false if there is none; then nothing is sent
   */
  publishNear?(subject: string, segments: readonly Uint8Array[]): boolean;
  /** A new private reply subject below this connection's inbox prefix. */
  newInbox(): string;
  /**
   * Calls back when everything published so far has reached the server. It passes false if the connection broke
   * meanwhile, because part may then be lost.
   */
  flush(done: (reached: boolean) => void): void;
  onStatus(listener: (status: BusStatus) => void): Subscription;
  /** Answers the NATS services protocol ($SRV.PING, INFO, STATS) for this actor until stopped. */
  announce(service: ServiceInfo): Subscription;
  /** Flushes, closes, and then calls `done`. */
  close(done: () => void): void;
}

export interface PublishOptions {
  readonly reply?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The caller gives the payload away and never touches it again. Within a process it is then not copied. */
  readonly owned?: boolean;
}
export interface SubscribeOptions {
  readonly queue?: string;
  /**
   * This is the only subscription to its subjects. Messages published in its own process then stay there (host-bus.ts).
   */
  readonly exclusive?: boolean;
}
export interface RequestOptions extends PublishOptions {
  readonly timeoutMs: number;
}
export interface Subscription {
  /** Stops at once; messages on their way are lost. */
  stop(): void;
}
export interface DeliverySubscription extends Subscription {
  /**
   * Takes nothing new, delivers what the server has already sent, then calls `done`. `done` is called once per call and
   * never within it, even if the connection breaks or is closed meanwhile (nothing is on its way then). A queue group
   * loses the member when the server hears of it, so no message is lost between its members (docs/architecture.md, T9).
   */
  drain(done: () => void): void;
}

/**
 * A message as it came. `payload` is borrowed until the handler returns: it may be a view of a shared read buffer, so
 * copy what you keep, unless it is the reader's own (`isOwned`).
 */
export interface Delivery {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly reply: string | undefined;
  /**
   * Nobody writes to the payload's memory any more, and the payload is a good part of it: keep it without a copy.
   * Default: false.
   */
  readonly isOwned?: boolean;
  /** Bytes of all headers as they came; absent if the adapter doesn't count them. */
  readonly headerBytes?: number;
  /** The message has headers that break the format; `header` then finds none. */
  readonly headersUnreadable?: boolean;
  /**
   * A header's first value; names are case-sensitive. A server's own message (503: no responders) has its code as
   * `Status`.
   */
  header(name: string): string | undefined;
}

/**
 * Reason why a request got no answer. Only `no-responders` says that there was no subscriber. After `timeout` (also:
 * too many requests are waiting) and `closed` (the connection is away, or went away meanwhile), the message may have
 * been delivered or not.
 */
export type BusFailure = { readonly failure: "no-responders" | "timeout" | "closed" | "too-large" };
export const isBusFailure = (result: Delivery | BusFailure): result is BusFailure => "failure" in result;

export type BusStatus =
  | { readonly kind: "disconnected" }
  | { readonly kind: "reconnected"; readonly server: string }
  | { readonly kind: "closed"; readonly reason: string }
  | { readonly kind: "permission-denied"; readonly subject: string; readonly text: string }
  /**
   * Messages wait for `lagMs` before they are read. The sender is held up, and in the end the server cuts the
   * connection and all of them are lost. `stoodStillMs`: how long the process stood still, where that is the cause;
   * else 0.
   */
  | { readonly kind: "slow-consumer"; readonly lagMs: number; readonly stoodStillMs: number; readonly text: string }
  /** The server has answered nothing for `lagMs`, though this process was awake: it hangs, or the network is gone. */
  | { readonly kind: "silent"; readonly lagMs: number }
  /** It answers again, after `lagMs`. Where the connection breaks first there is no such status. */
  | { readonly kind: "heard"; readonly lagMs: number }
  | { readonly kind: "error"; readonly text: string };

export interface ServiceInfo {
  /** `[A-Za-z0-9_-]+`: the role. */
  readonly name: string;
  readonly id: string;
  readonly version: string;
  readonly description: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** The endpoint that it answers besides $SRV, for `nats micro info`. */
  readonly endpoint?: { readonly subject: string; readonly queue: string };
  /** Figures for STATS. `requests` and `errors` also fill the protocol's own counters. */
  stats(): Readonly<Record<string, number>>;
}
