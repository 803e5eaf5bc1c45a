import type { Bus, Delivery, Subscription } from "@tutti/ports/bus";
import type { Clock, Stop } from "@tutti/ports/clock";
import type { Heartbeat } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, actorToken, after, millis } from "@tutti/units";
import type { PeerRegistry } from "./peer-registry.ts";

/** Default interval between probes of peers whose death must be known at once. */
export const PROBE_EVERY: Micros = millis(20);
/**
 * Bound of the probes in one round (T7); with more peers, they take turns. At 20 ms that is 5,000 probes a second at
 * most: one costs its sender and the server about 1 µs each, since all of a round leave in one write, and wakes one
 * process for 5 µs.
 */
const PROBES_MAX = 100;
/** Bound of the strangers that are probed at once (T7). */
const STRANGERS_MAX = 100;
/** Time between two "no responders" replies that prove a stranger gone. */
const STRANGER_GONE_AFTER = millis(100);

export interface PeerProbesOptions {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly every: Micros;
  readonly registry: PeerRegistry;
  readonly subjectOf: (peer: ActorKey) => string;
  /** Whether this actor must learn of the peer's death before a time-out. */
  readonly matters: (peer: Heartbeat) => boolean;
}

/**
 * Probes peers with empty messages to their own subjects, each with a reply subject. No peer answers them. When a
 * process dies, its connection ends, and the server itself replies that there are no responders. That proves the death,
 * which silence does not, so it needs no time-out that a busy machine could reach.
 *
 * The proof counts only for a peer that was heard since our own connection was last made. Its subscription is then
 * known where we are: servers of a cluster forward subscriptions and messages of a connection in order. And after a
 * server's restart, a peer that only comes back later than we do is not taken for dead.
 *
 * A stranger holds something but was never heard, as when a lone process was killed and restarted. It is gone if there
 * is no responder for STRANGER_GONE_AFTER while our connection is the first that we have: its server has then been
 * there longer than we have.
 */
export class PeerProbes {
  readonly #options: PeerProbesOptions;
  readonly #inbox: string;
  readonly #subscription: Subscription;
  readonly #ticking: Stop;
  readonly #strangers = new Map<ActorKey, { readonly onGone: () => void; nobodySince: Instant | undefined }>();
  #isFirstConnection = true;
  #turn = 0;
  sent = 0;

  constructor(options: PeerProbesOptions) {
    this.#options = options;
    this.#inbox = options.bus.newInbox();
    this.#subscription = options.bus.subscribe(`${this.#inbox}.*`, (delivery) => this.#onReply(delivery));
    this.#ticking = options.clock.every(options.every, () => this.#round());
  }

  /** Finds out whether a peer that was never heard is gone. @param onGone - called after the registry knows */
  askAfter(stranger: ActorKey, onGone: () => void): void {
    if (!this.#isFirstConnection || this.#strangers.has(stranger) || this.#strangers.size >= STRANGERS_MAX) return;
    this.#strangers.set(stranger, { onGone, nobodySince: undefined });
    this.#probe(stranger);
  }

  reconnected(): void {
    this.#isFirstConnection = false;
    this.#strangers.clear();
  }

  stop(): void {
    this.#ticking.stop();
    this.#subscription.stop();
  }

  #round(): void {
    const { bus, registry, subjectOf, matters } = this.#options;
    const peers: ActorKey[] = [];
    for (const peer of registry.peers()) if (matters(peer)) peers.push(peer.key);
    const count = Math.min(PROBES_MAX, peers.length);
    for (let i = 0; i < count; i++) {
      const key = peers[(this.#turn + i) % peers.length]!;
      // A process of this host is not probed: its death ends its link, and it is probed from then on.
      if (registry.wasHeardHere(key) && bus.isNear?.(subjectOf(key)) !== true) this.#probe(key);
    }
    for (const key of this.#strangers.keys())
      if (registry.get(key) === undefined) this.#probe(key);
      else this.#strangers.delete(key);
    this.#turn = peers.length === 0 ? 0 : (this.#turn + count) % peers.length;
  }

  #probe(key: ActorKey): void {
    this.sent++;
    const { bus, subjectOf } = this.#options;
    bus.publish(subjectOf(key), NOTHING, { reply: `${this.#inbox}.${actorToken(key)}` });
  }

  #onReply(delivery: Delivery): void {
    if (delivery.payload.length > 0 || delivery.header("Status") !== "503") return;
    const key = parseInt(delivery.subject.slice(this.#inbox.length + 1), 36) as ActorKey;
    if (this.#options.registry.wasHeardHere(key)) this.#options.registry.lose(key);
    else this.#onNobody(key);
  }

  #onNobody(key: ActorKey): void {
    const stranger = this.#strangers.get(key);
    if (stranger === undefined) return;
    const now = this.#options.clock.now();
    stranger.nobodySince ??= now;
    if (now < after(stranger.nobodySince, STRANGER_GONE_AFTER)) return;
    this.#strangers.delete(key);
    this.#options.registry.lose(key);
    stranger.onGone();
  }
}

const NOTHING = new Uint8Array(0);
