import type { PullRequest, ResultBatch } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import type { DataClient, DataPeer, DataServer, DirectClient, PullOutcome } from "./pull.ts";

export interface FallbackOptions {
  /** Monotonic clock, in milliseconds. */
  readonly now: () => number;
  /**
   * Time after a failed connect until the next one, ms; it doubles with each failure, up to a minute. Default 1,000.
   */
  readonly retryAfterMs?: number;
  /** Called when a peer's route changes. */
  readonly onSwitch?: (peer: ActorKey, way: "direct" | "relayed") => void;
}

const LONGEST_PAUSE_MS = 60_000;

/** A try to connect, or the pause after it. */
interface Attempt {
  failures: number;
  /** Infinity while it is being made. */
  retryAt: number;
}

/**
 * Pulls over a direct connection where there is one, and the relayed route otherwise. Connections are made in the
 * background, since a port may be silent: no pull waits for one, except at a port that has answered before.
 */
export function fallbackClient(direct: DirectClient, relayed: DataClient, options: FallbackOptions): DataClient {
  return new FallbackClient(direct, relayed, options);
}

class FallbackClient implements DataClient {
  readonly #direct: DirectClient;
  readonly #relayed: DataClient;
  readonly #options: FallbackOptions;
  /** Peers that are not connected. They are few, and leave by `forget`. */
  readonly #attempts = new Map<ActorKey, Attempt>();
  /** Peers whose port has answered. A connection that was closed while idle is made again by the next pull. */
  readonly #reached = new Set<ActorKey>();
  #closed = false;

  constructor(direct: DirectClient, relayed: DataClient, options: FallbackOptions) {
    this.#direct = direct;
    this.#relayed = relayed;
    this.#options = options;
  }

  pull(peer: DataPeer, pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    const { now } = this.#options;
    if (!this.#direct.isConnected(peer) && !this.#reached.has(peer.key)) {
      this.#connect(peer);
      return this.#relayed.pull(peer, pull, timeoutMs, done);
    }
    const start = now();
    this.#direct.pull(peer, pull, timeoutMs, (outcome) => {
      if (!("failure" in outcome) || outcome.failure !== "unreachable" || this.#closed) return done(outcome);
      this.#reached.delete(peer.key);
      const leftMs = timeoutMs - (now() - start);
      if (leftMs <= 0) return done({ failure: "timeout" });
      this.#relayed.pull(peer, pull, leftMs, done);
    });
  }

  #connect(peer: DataPeer): void {
    const { now, retryAfterMs = 1_000, onSwitch } = this.#options;
    const { key, address } = peer;
    if (address === undefined || this.#closed) return;
    const { failures, retryAt } = this.#attempts.get(key) ?? { failures: 0, retryAt: 0 };
    if (now() < retryAt) return;
    const attempt: Attempt = { failures, retryAt: Infinity };
    this.#attempts.set(key, attempt);
    this.#direct.connect(peer, (isUp) => {
      if (this.#attempts.get(key) !== attempt) return;
      if (isUp) {
        this.#attempts.delete(key);
        this.#reached.add(key);
        if (failures > 0) onSwitch?.(key, "direct");
        return;
      }
      attempt.failures++;
      attempt.retryAt = now() + Math.min(retryAfterMs * 2 ** failures, LONGEST_PAUSE_MS);
      if (failures === 0) onSwitch?.(key, "relayed");
    });
  }

  push(peer: DataPeer, results: ResultBatch): void {
    if (!this.#direct.tryPush(peer, results)) this.#relayed.push(peer, results);
  }

  forget(key: ActorKey): void {
    this.#attempts.delete(key);
    this.#reached.delete(key);
    this.#direct.forget(key);
    this.#relayed.forget(key);
  }

  close(done: () => void): void {
    this.#closed = true;
    this.#attempts.clear();
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
