import type { Bus, Delivery, Subscription } from "@tutti/ports/bus";
import type { Clock, Stop } from "@tutti/ports/clock";
import type { Heartbeat } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, actorToken, after, millis } from "@tutti/units";
import type { PeerRegistry } from "./peer-registry.ts";

/** How often each peer is probed that somebody must know of at once. */
export const PROBE_EVERY: Micros = millis(20);
/**
 * Probes in one round (T7): up to so many peers are probed each time, more of them in turn. At 20 ms that is 5,000
 * probes a second at most: one costs its sender and the server about 1 µs each, since all of a round leave in one
 * write, and wakes one process for 5 µs.
 */
const PROBES_MAX = 100;
/** Strangers that are asked after at once (T7). */
const STRANGERS_MAX = 100;
/** Nobody must be there twice, so long apart. */
const STRANGER_GONE_AFTER = millis(100);

export interface PeerProbesOptions {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly every: Micros;
  readonly registry: PeerRegistry;
  readonly subjectOf: (peer: ActorKey) => string;
  /** Whose death this actor must know of before a time-out says so. */
  readonly matters: (peer: Heartbeat) => boolean;
}

/**
 * Empty messages to peers' own subjects, each with a reply subject. Nobody answers them: when a process dies its
 * connection goes with it, and the server itself says that nobody is there any more. That is proof where silence is
 * none, so it needs no time-out that a busy machine could reach.
 *
 * It is believed only of a peer that was heard since our own connection was last made. Its interest is then known where
 * we are: servers of a cluster hand on subscriptions and messages of a connection in order. And after a server's
 * restart nobody is taken for dead who only comes back later than we.
 *
 * A stranger holds something and was never heard, as where a lone process was killed and started again. If nobody is
 * there for STRANGER_GONE_AFTER it is gone, while our connection is the first that we have: its server has then been
 * there longer than we.
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

  /** Finds out whether one that was never heard is gone. @param onGone - the directory knows it by then */
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
      // A process of this host that dies takes its link with it: it is probed from then on.
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
