/**
 * The bus port: subjects, queue groups, replies. Delivery is at most once and in order per publisher and subject;
 * nothing is kept for those who are away. Calls never block and never throw: what goes wrong arrives as a status or a
 * failure value.
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
   * `*` matches one token, `>` the rest. Handlers run synchronously, one delivery after another; one that throws is
   * reported, not fatal.
   */
  subscribe(
    subject: string,
    onDelivery: (delivery: Delivery) => void,
    options?: SubscribeOptions,
  ): DeliverySubscription;
  /** One answer or a failure, once. For cold paths: hot ones have an inbox of their own (docs/architecture.md, 8). */
  request(
    subject: string,
    payload: Uint8Array,
    options: RequestOptions,
    done: (result: Delivery | BusFailure) => void,
  ): void;
  /**
   * Whether somebody subscribes there whom messages reach without the server: nothing is lost with the connection then.
   */
  isNear?(subject: string): boolean;
  /** A new private reply subject below this connection's inbox prefix. */
  newInbox(): string;
  /**
   * Calls back when everything published so far has reached the server; with false if the connection broke meanwhile:
   * some of it may be lost.
   */
  flush(done: (reached: boolean) => void): void;
  onStatus(listener: (status: BusStatus) => void): Subscription;
  /** Answers the NATS services protocol ($SRV.PING, INFO, STATS) for this actor until stopped. */
  announce(service: ServiceInfo): Subscription;
  /** Flushes and closes. */
  close(done: () => void): void;
}

export interface PublishOptions {
  readonly reply?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The caller gives the payload away and never touches it again: within a process it is then not copied. */
  readonly owned?: boolean;
}
export interface SubscribeOptions {
  readonly queue?: string;
  /** Nobody else subscribes to its subjects: what is published in its own process stays there (host-bus.ts). */
  readonly exclusive?: boolean;
}
export interface RequestOptions extends PublishOptions {
  readonly timeoutMs: number;
}
export interface Subscription {
  /** At once: what is on its way is lost. */
  stop(): void;
}
export interface DeliverySubscription extends Subscription {
  /**
   * Takes nothing new, delivers what the server has sent already, then calls `done`; once per call, never within it,
   * also where the connection breaks or is closed meanwhile (nothing is on its way then). A queue group has one member
   * less from the moment at which the server hears of it, so no message is lost between its members
   * (docs/architecture.md, T9).
   */
  drain(done: () => void): void;
}

/**
 * A message as it came. `payload` is borrowed until the handler returns: it may be a view of a shared read buffer, so
 * copy what is kept.
 */
export interface Delivery {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly reply: string | undefined;
  /** Of all headers as they came; absent where nobody counted. */
  readonly headerBytes?: number;
  /** There are headers and they break the format: `header` then finds none. */
  readonly headersUnreadable?: boolean;
  /**
   * A header's first value; names are case-sensitive. A server's own message (503: nobody is there) has its code as
   * `Status`.
   */
  header(name: string): string | undefined;
}

/**
 * Why a request got no answer. Only `no-responders` says that nobody was there; after `timeout` (also: too many
 * requests are waiting) and `closed` (the connection is away, or went away meanwhile) nothing is known about delivery.
 */
export type BusFailure = { readonly failure: "no-responders" | "timeout" | "closed" | "too-large" };
export const isBusFailure = (result: Delivery | BusFailure): result is BusFailure => "failure" in result;

export type BusStatus =
  | { readonly kind: "disconnected" }
  | { readonly kind: "reconnected"; readonly server: string }
  | { readonly kind: "closed"; readonly reason: string }
  | { readonly kind: "permission-denied"; readonly subject: string; readonly text: string }
  /**
   * What comes waits for so long before it is read: the sender is held up, and in the end the server cuts the
   * connection, and all of it is lost.
   */
  | { readonly kind: "slow-consumer"; readonly lagMs: number; readonly text: string }
  | { readonly kind: "error"; readonly text: string };

export interface ServiceInfo {
  /** `[A-Za-z0-9_-]+`: the role. */
  readonly name: string;
  readonly id: string;
  readonly version: string;
  readonly description: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** What it answers besides $SRV, for `nats micro info`. */
  readonly endpoint?: { readonly subject: string; readonly queue: string };
  /** Figures for STATS; `requests` and `errors` also fill the protocol's own counters. */
  stats(): Readonly<Record<string, number>>;
}
