import type { Clock, Stop } from "@tutti/ports/clock";
import type { Heartbeat, Role } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, after, before, earlier, micros, seconds } from "@tutti/units";
import type { BrokerStallDetector } from "./broker-stall-detector.ts";

/** Bound of the known peers; beyond it, newcomers wait until one is lost (T7). */
const PEERS_MAX = 16_384;

/** Bound of the remembered peers that are proved gone. */
const GONE_MAX = 1_024;

/** Sweeps per time-out: a silent peer is noticed within a time-out and one of these parts of it. */
const SWEEPS = 10;

const NO_TIME = micros(0);
/** How often the server is asked whether it is awake while all peers beat rarely. */
const QUIET_PULSE_EVERY = seconds(1);

interface Known {
  last: Heartbeat;
  /** Time of its last heartbeat, on a clock that runs only while the server is awake. */
  heardAt: Instant;
  /** Number of our connection on which it was last heard. */
  connection: number;
}

export interface PeerWatcher {
  onJoin?(peer: Heartbeat): void;
  onBeat?(peer: Heartbeat): void;
  onLost?(peer: Heartbeat): void;
}

/**
 * Registry of the living actors. Their last heartbeat is younger than the time-out, longer for those that beat rarely,
 * and they have not said that they leave.
 */
export class PeerRegistry {
  readonly #clock: Clock;
  readonly #timeout: Micros;
  readonly #watcher: PeerWatcher;
  readonly #stallDetector: BrokerStallDetector | undefined;
  readonly #peers = new Map<ActorKey, Known>();
  /** Peers that are proved gone, and since when. */
  readonly #gone = new Map<ActorKey, Instant>();
  readonly #sweeping: Stop;
  readonly #sweepEvery: Micros;
  #sweptAt: Instant;
  #connection = 0;
  #isAway = false;

  /**
   * @param stallDetector - of the connection over which peers are heard: while the server stalls, silence proves
   *   nothing
   */
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
   * Removes a peer that is proved gone, without a time-out. A peer that only lost its connection joins again with its
   * next heartbeat.
   */
  lose(key: ActorKey): void {
    this.#gone.set(key, this.#clock.now());
    const [oldest] = this.#gone.keys();
    if (this.#gone.size > GONE_MAX && oldest !== undefined) this.#gone.delete(oldest);
    const peer = this.#peers.get(key);
    if (peer !== undefined) this.#lose(peer.last);
  }

  /**
   * Whether it is gone, and not only silent. It said goodbye, or the server found no responder, and it was not heard
   * since.
   */
  isGone(key: ActorKey): boolean {
    return this.#gone.has(key);
  }
  /** When that was proved; undefined if it isn't gone. */
  goneAt(key: ActorKey): Instant | undefined {
    return this.#gone.get(key);
  }

  /** Our own connection is away: the silence of peers proves nothing, however long it lasts. */
  disconnected(): void {
    this.#isAway = true;
    this.#stallDetector?.reset();
  }

  /**
   * Our connection was made again. Heartbeats sent meanwhile are lost, so each peer gets a whole time-out to be heard
   * here.
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
    // A stall of this process looks like silence of all peers, and timers run before arrived messages are read. So a
    // stall does not count, and after a long one peers get a whole time-out to be heard again.
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
   * Whether all peers beat rarely. Their silence is noticed so much later that the server need not be asked as often.
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
