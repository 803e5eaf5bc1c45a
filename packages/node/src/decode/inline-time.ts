/**
 * Time that the bodies of each application may take of the thread that schedules: a fifth of it, and five milliseconds
 * at once. Bodies beyond that are decoded on threads, however short they are, so that who sends many waits for itself.
 * What a byte costs depends on what it holds (numbers 6 ns, keys 34), so the time is measured. An application is who
 * its credentials say, or without any who it says itself.
 */

/** Time that an application may be ahead of its share, in ms: after 5 ms on end it is. */
const AHEAD_MS = 4;
/** Share of the thread. */
const SHARE = 0.2;
/** Applications that are told apart; all others count as one while these are. */
export const INLINE_APPS_MAX = 1_024;
/** Shorter bodies don't count: the way to another thread would cost more than they do. */
export const INLINE_FREE_BYTES = 4_096;
/** Room that a short body takes among the bodies that wait for a thread: some of its bytes beside a long one's. */
export const SHORT_BODY_WEIGHT = 1 / 16;

export class InlineTime {
  /** When each application will have been idle for long enough to be no more ahead, in ms. */
  readonly #levelAt = new Map<string, number>();
  readonly #now: () => number;

  /** @param now - in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether a body of this application may be decoded on this thread. */
  has(app: string): boolean {
    const levelAt = this.#levelAt.get(this.#nameOf(app));
    return levelAt === undefined || (levelAt - this.#now()) * SHARE < AHEAD_MS;
  }

  /** Decodes a body, and counts the time that it takes. */
  take<T>(app: string, decode: () => T): T {
    const startedAt = this.#now();
    try {
      return decode();
    } finally {
      const name = this.#nameOf(app);
      const now = this.#now();
      this.#levelAt.set(name, Math.max(this.#levelAt.get(name) ?? 0, startedAt) + (now - startedAt) / SHARE);
      if (this.#levelAt.size >= INLINE_APPS_MAX) this.#forget(now);
    }
  }

  #nameOf(app: string): string {
    return this.#levelAt.size < INLINE_APPS_MAX || this.#levelAt.has(app) ? app : "";
  }

  /** Forgets who is not ahead. */
  #forget(now: number): void {
    for (const [app, levelAt] of this.#levelAt) if (levelAt <= now) this.#levelAt.delete(app);
  }
}
