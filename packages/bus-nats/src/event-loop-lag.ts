/**
 * How often the server is asked for a sign of life, and how late it may be before this side counts as a slow consumer.
 */
const PROBE_MS = 1_000;
export const SLOW_MS = 2_000;

export interface EventLoopLagOptions {
  readonly everyMs?: number;
  readonly slowMs?: number;
  /** Sends a PING; settles with its PONG, or when the connection breaks. */
  readonly flush: () => Promise<void>;
  readonly now?: () => number;
  /** Once per time that it falls behind. */
  readonly onSlow: (lagMs: number) => void;
}

/**
 * How far behind this side of a connection is. A PONG comes after everything that the server had for us before, so the
 * time that one takes is the time that all of that waits: in the server, in the sockets, and for our own event loop.
 * Nothing else tells a slow consumer of itself before it is cut off.
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

  /** How long the PONG is awaited that is due; 0 when none is. */
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
