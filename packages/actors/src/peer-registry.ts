import type { Clock, Stop } from "@tutti/ports/clock";
import type { Heartbeat, Role } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, after, before, earlier, micros, seconds } from "@tutti/units";
import type { BrokerStallDetector } from "./broker-stall-detector.ts";

/** Peers known at once; beyond, newcomers wait until one is lost (T7). */
const PEERS_MAX = 16_384;

/** Of those that are proved gone, the last so many are remembered. */
const GONE_MAX = 1_024;

/** A silent peer is noticed within a time-out and one of so many parts of it. */
const SWEEPS = 10;

const NO_TIME = micros(0);
/** How often the server is asked whether it is awake while all peers beat rarely. */
const QUIET_PULSE_EVERY = seconds(1);

interface Known {
  last: Heartbeat;
  /** In the time in which the server was awake. */
  heardAt: Instant;
  /** Which of our connections it was last heard on. */
  connection: number;
}

export interface PeerWatcher {
  onJoin?(peer: Heartbeat): void;
  onBeat?(peer: Heartbeat): void;
  onLost?(peer: Heartbeat): void;
}

/**
 * Who is alive: the actors whose last heartbeat is younger than the time-out, longer where they beat rarely, and who
 * did not say that they leave.
 */
export class PeerRegistry {
  readonly #clock: Clock;
  readonly #timeout: Micros;
  readonly #watcher: PeerWatcher;
  readonly #stallDetector: BrokerStallDetector | undefined;
  readonly #peers = new Map<ActorKey, Known>();
  /** Since when. */
  readonly #gone = new Map<ActorKey, Instant>();
  readonly #sweeping: Stop;
  readonly #sweepEvery: Micros;
  #sweptAt: Instant;
  #connection = 0;
  #isAway = false;

  /** @param stallDetector - of the connection over which peers are heard: while the server sleeps nobody is silent */
  constructor(clock: Clock, timeout: Micros, watcher: PeerWatcher, stallDetector?: BrokerStallDetector) {
    this.#clock = clock;
    this.#timeout = timeout;
    this.#watcher = watcher;
    this.#stallDetector = stallDetector;
    this.#sweptAt = clock.now();
    this.#sweepEvery = micros(Math.max(1_000, Math.round(timeout / SWEEPS)));
    this.#sweeping = clock.every(this.#sweepEvery, () => this.#sweep());
  }

  hear(beat: Heartbeat): void {
    const known = this.#peers.get(beat.key);
    if (beat.leaving) {
      this.lose(beat.key);
      return;
    }
    this.#gone.delete(beat.key);
    if (known === undefined) {
      if (this.#peers.size >= PEERS_MAX) return;
      this.#peers.set(beat.key, { last: beat, heardAt: this.#awakeAt(), connection: this.#connection });
      this.#watcher.onJoin?.(beat);
    } else {
      known.last = beat;
      known.heardAt = this.#awakeAt();
      known.connection = this.#connection;
    }
    this.#watcher.onBeat?.(beat);
  }

  get size(): number {
    return this.#peers.size;
  }
  get(key: ActorKey): Heartbeat | undefined {
    return this.#peers.get(key)?.last;
  }

  *ofRole(role: Role): Generator<Heartbeat> {
    for (const { last } of this.#peers.values()) if (last.role === role) yield last;
  }

  some(role: Role, matches: (peer: Heartbeat) => boolean): boolean {
    for (const peer of this.ofRole(role)) if (matches(peer)) return true;
    return false;
  }

  *peers(): Generator<Heartbeat> {
    for (const { last } of this.#peers.values()) yield last;
  }

  /** Whether it was heard since this actor's connection was last made. */
  wasHeardHere(key: ActorKey): boolean {
    return this.#peers.get(key)?.connection === this.#connection;
  }

  /**
   * LeadershipCheck that it is gone: it is lost without a time-out. One that only lost its connection joins again with
   * its next heartbeat.
   */
  lose(key: ActorKey): void {
    this.#gone.set(key, this.#clock.now());
    const [oldest] = this.#gone.keys();
    if (this.#gone.size > GONE_MAX && oldest !== undefined) this.#gone.delete(oldest);
    const peer = this.#peers.get(key);
    if (peer !== undefined) this.#lose(peer.last);
  }

  /** Not only silent: it has said goodbye, or the server that nobody is there, and it was not heard since. */
  isGone(key: ActorKey): boolean {
    return this.#gone.has(key);
  }
  /** When that was proved; undefined if it isn't gone. */
  goneAt(key: ActorKey): Instant | undefined {
    return this.#gone.get(key);
  }

  /** Our own connection is away: that nobody is heard says nothing of anybody, however long it lasts. */
  disconnected(): void {
    this.#isAway = true;
    this.#stallDetector?.reset();
  }

  /**
   * Our connection was made anew: what peers said meanwhile is lost, so each gets a whole time-out to be heard here.
   */
  reconnected(): void {
    this.#isAway = false;
    this.#connection++;
    this.#stallDetector?.reset();
    const now = this.#awakeAt();
    for (const peer of this.#peers.values()) peer.heardAt = now;
  }

  stop(): void {
    this.#sweeping.stop();
  }

  #sweep(): void {
    const now = this.#clock.now();
    // Our own stall looks like everybody's silence, and timers run before what has arrived is read: it doesn't count,
    // and after a long one peers get a whole time-out to be heard again.
    const stall = now - this.#sweptAt - this.#sweepEvery;
    this.#sweptAt = now;
    const awakeAt = this.#awakeAt();
    if (stall > this.#sweepEvery)
      for (const peer of this.#peers.values())
        peer.heardAt = stall > this.#timeout ? awakeAt : earlier(awakeAt, after(peer.heardAt, stall as Micros));
    if (this.#isAway) return;
    this.#stallDetector?.beat(this.#isQuiet() ? QUIET_PULSE_EVERY : NO_TIME);
    const deadline = before(awakeAt, this.#timeout);
    for (const { last, heardAt } of [...this.#peers.values()])
      if (after(heardAt, last.every ?? NO_TIME) < deadline) this.#lose(last);
  }

  /**
   * Whether all peers beat rarely: their silence is noticed so much later that the server need not be asked as often.
   */
  #isQuiet(): boolean {
    for (const { last } of this.#peers.values()) if ((last.every ?? NO_TIME) < QUIET_PULSE_EVERY) return false;
    return true;
  }

  #awakeAt(): Instant {
    const now = this.#clock.now();
    return this.#stallDetector === undefined ? now : before(now, micros(this.#stallDetector.stalledUs));
  }

  #lose(peer: Heartbeat): void {
    this.#peers.delete(peer.key);
    this.#watcher.onLost?.(peer);
  }
}
