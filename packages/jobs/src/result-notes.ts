import type { JobQueue } from "@tutti/ports/jobs";
import type { AppShares } from "./app-shares.ts";

/**
 * Results that were stored and not noted yet. Many are noted together, and until then they count as on their way: no
 * look at the notes can have seen them.
 */
export class ResultNotes {
  readonly #queue: Pick<JobQueue, "noteResults">;
  readonly #shares: AppShares;
  /** Bytes by application. */
  #unnoted = new Map<string, number>();

  constructor(queue: Pick<JobQueue, "noteResults">, shares: AppShares) {
    this.#queue = queue;
    this.#shares = shares;
  }

  stored(app: string, bytes: number): void {
    this.#shares.add("results", app, bytes);
    this.#putBack(app, bytes);
  }

  /** Notes what was stored until now; what could not be noted is noted by the next call. */
  async note(): Promise<void> {
    const left = this.#unnoted;
    // Results that are stored meanwhile are for the next call: this one must come to an end.
    this.#unnoted = new Map();
    try {
      for (const [app, bytes] of left) {
        await this.#queue.noteResults(app, bytes);
        left.delete(app);
        this.#shares.arrived("results", app, bytes);
      }
    } finally {
      for (const [app, bytes] of left) this.#putBack(app, bytes);
    }
  }

  #putBack(app: string, bytes: number): void {
    this.#unnoted.set(app, (this.#unnoted.get(app) ?? 0) + bytes);
  }
}
