/** Interval of the PINGs, and the delay of a PONG from which this side counts as a slow consumer. */
const PROBE_MS = 1_000;
export const SLOW_MS = 2_000;

export interface EventLoopLagOptions {
  readonly everyMs?: number;
  readonly slowMs?: number;
  /** Sends a PING; settles with its PONG, or when the connection breaks. */
  readonly flush: () => Promise<void>;
  readonly now?: () => number;
  /** Called once per period of lag. */
  readonly onSlow: (lagMs: number) => void;
}

/**
 * Lag of this side of a connection. A PONG follows everything that the server sent before it, so its delay is the time
 * that all of that waits: in the server, in the sockets, and for our own event loop. No other signal reaches a slow
 * consumer before it is cut off.
 */
export class EventLoopLag {
  readonly #options: EventLoopLagOptions;
  readonly #now: () => number;
  readonly #slowMs: number;
  readonly #timer: NodeJS.Timeout;
  #askedMs: number | undefined;
  #isSlow = false;

  constructor(options: EventLoopLagOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#slowMs = options.slowMs ?? SLOW_MS;
    this.#timer = setInterval(() => this.#ask(), options.everyMs ?? PROBE_MS);
    this.#timer.unref();
  }

  /** Time since the PING that has no PONG yet; 0 when none is due. */
  get lagMs(): number {
    return this.#askedMs === undefined ? 0 : this.#now() - this.#askedMs;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #ask(): void {
    if (this.#askedMs !== undefined) return this.#look();
    this.#askedMs = this.#now();
    const answered = (): void => {
      this.#look();
      if (this.lagMs < this.#slowMs / 2) this.#isSlow = false;
      this.#askedMs = undefined;
    };
    const broken = (): void => {
      this.#askedMs = undefined;
      this.#isSlow = false;
    };
    this.#options.flush().then(answered, broken);
  }

  #look(): void {
    const lagMs = this.lagMs;
    if (lagMs < this.#slowMs || this.#isSlow) return;
    this.#isSlow = true;
    this.#options.onSlow(lagMs);
  }
}
