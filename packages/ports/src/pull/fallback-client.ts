import type { PullRequest, ResultBatch } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { DataClient, DataPeer, DataServer, DirectClient, PullOutcome } from "./pull.ts";

export interface FallbackOptions {
  /** Monotonic clock, in milliseconds. */
  readonly now: () => number;
  /**
   * Time for which an unreachable peer uses the second route before the direct one is tried again, ms. Default 5,000.
   */
  readonly retryAfterMs?: number;
  /** Called when a peer's route changes. */
  readonly onSwitch?: (peer: ActorKey, way: "direct" | "relayed") => void;
}

/**
 * Uses direct connections where they can be made, and the relayed route otherwise. A pull that finds its peer
 * unreachable is sent the other way at once, with the rest of its time. The peer's next pulls go that way until the
 * direct one is due again.
 */
export function fallbackClient(direct: DirectClient, relayed: DataClient, options: FallbackOptions): DataClient {
  return new FallbackClient(direct, relayed, options);
}

class FallbackClient implements DataClient {
  readonly #direct: DirectClient;
  readonly #relayed: DataClient;
  readonly #options: FallbackOptions;
  /** Peers that could not be reached directly, and when to try again. Peers are few, and leave by `forget`. */
  readonly #retryAt = new Map<ActorKey, number>();
  #closed = false;

  constructor(direct: DirectClient, relayed: DataClient, options: FallbackOptions) {
    this.#direct = direct;
    this.#relayed = relayed;
    this.#options = options;
  }

  pull(peer: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    const { now } = this.#options;
    const start = now();
    if (!this.#mayTry(peer, start)) return this.#relayed.pull(peer, pull, timeoutMs, done);
    this.#direct.pull(peer, pull, timeoutMs, (outcome) => {
      if (!("failure" in outcome) || outcome.failure !== "unreachable" || this.#closed) {
        const answered = !("failure" in outcome) || outcome.failure === "forbidden";
        if (answered && this.#retryAt.delete(peer.key)) this.#options.onSwitch?.(peer.key, "direct");
        return done(outcome);
      }
      this.#giveUp(peer.key);
      const leftMs = timeoutMs - (now() - start);
      if (leftMs <= 0) return done({ failure: "timeout" });
      this.#relayed.pull(peer, pull, leftMs, done);
    });
  }

  #mayTry(peer: DataPeer, now: number): boolean {
    if (peer.address === undefined) return false;
    const retryAt = this.#retryAt.get(peer.key);
    if (retryAt === undefined) return true;
    if (now < retryAt) return false;
    // One pull tries the direct route; pulls during the attempt take the route that works.
    this.#retryAt.set(peer.key, now + (this.#options.retryAfterMs ?? 5_000));
    return true;
  }

  #giveUp(key: ActorKey): void {
    const known = this.#retryAt.has(key);
    this.#retryAt.set(key, this.#options.now() + (this.#options.retryAfterMs ?? 5_000));
    if (!known) this.#options.onSwitch?.(key, "relayed");
  }

  push(peer: DataPeer, results: ResultBatch): void {
    if (!this.#direct.tryPush(peer, results)) this.#relayed.push(peer, results);
  }

  forget(key: ActorKey): void {
    this.#direct.forget(key);
    this.#relayed.forget(key);
    this.#retryAt.delete(key);
  }

  close(done: () => void): void {
    this.#closed = true;
    this.#direct.close(() => this.#relayed.close(done));
  }
}

/** An ingress serves both routes at once; its address is the direct one's. */
export function bothServers(direct: DataServer, relayed: DataServer): DataServer {
  return {
    get address() {
      return direct.address;
    },
    pushBatch: (batch, batcher, items) => relayed.pushBatch?.(batch, batcher, items) === true,
    close: (done) => direct.close(() => relayed.close(done)),
  };
}
