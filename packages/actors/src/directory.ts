import type { Clock, Stop } from "@tutti/clock";
import type { Heartbeat, Role } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, before, micros } from "@tutti/units";

/** Peers known at once; beyond, newcomers wait until one is lost (T7). */
const PEERS_MAX = 16_384;

export interface PeerWatcher {
  onJoin?(peer: Heartbeat): void;
  onBeat?(peer: Heartbeat): void;
  onLost?(peer: Heartbeat): void;
}

/** Who is alive: the actors whose last heartbeat is younger than the time-out, and who did not say that they leave. */
export class Directory {
  readonly #clock: Clock;
  readonly #timeout: Micros;
  readonly #watcher: PeerWatcher;
  readonly #peers = new Map<ActorKey, { last: Heartbeat; heardAt: Instant }>();
  readonly #sweeping: Stop;
  #sweptAt: Instant;

  constructor(clock: Clock, timeout: Micros, watcher: PeerWatcher) {
    this.#clock = clock;
    this.#timeout = timeout;
    this.#watcher = watcher;
    this.#sweptAt = clock.now();
    this.#sweeping = clock.every(micros(Math.max(1_000, Math.round(timeout / 4))), () => this.#sweep());
  }

  hear(beat: Heartbeat): void {
    const known = this.#peers.get(beat.key);
    if (beat.leaving) {
      if (known !== undefined) this.#lose(known.last);
      return;
    }
    if (known === undefined) {
      if (this.#peers.size >= PEERS_MAX) return;
      this.#peers.set(beat.key, { last: beat, heardAt: this.#clock.now() });
      this.#watcher.onJoin?.(beat);
    } else {
      known.last = beat;
      known.heardAt = this.#clock.now();
    }
    this.#watcher.onBeat?.(beat);
  }

  get(key: ActorKey): Heartbeat | undefined {
    return this.#peers.get(key)?.last;
  }

  *ofRole(role: Role): Generator<Heartbeat> {
    for (const { last } of this.#peers.values()) if (last.role === role) yield last;
  }

  stop(): void {
    this.#sweeping.stop();
  }

  #sweep(): void {
    const now = this.#clock.now();
    // Our own stall looks like everybody's death: after one, peers get a whole time-out to be heard again.
    const stalled = now - this.#sweptAt > this.#timeout;
    this.#sweptAt = now;
    if (stalled) {
      for (const peer of this.#peers.values()) peer.heardAt = now;
      return;
    }
    const deadline = before(now, this.#timeout);
    for (const { last, heardAt } of [...this.#peers.values()]) if (heardAt < deadline) this.#lose(last);
  }

  #lose(peer: Heartbeat): void {
    this.#peers.delete(peer.key);
    this.#watcher.onLost?.(peer);
  }
}
