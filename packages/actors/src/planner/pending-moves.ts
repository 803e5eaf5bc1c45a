import type { ModelMove, ModelToPlace } from "@tutti/planning/live";
import type { Placement } from "@tutti/protocol";
import { type Instant, type Micros, between } from "@tutti/units";

/** Epochs after which an unfinished move is taken back, and epochs for which the model then stays. */
const STUCK_EPOCHS = 2;
const PINNED_EPOCHS = 10;

/** Moves under way, and the part of an epoch's budget that moves have used up. */
export class PendingMoves {
  readonly #epoch: Micros;
  readonly #since = new Map<number, Instant>();
  readonly #pinnedAt = new Map<number, Instant>();
  #spent: { readonly at: Instant; readonly cost: number }[] = [];
  #now = 0 as Instant;

  constructor(epoch: Micros) {
    this.#epoch = epoch;
  }

  /** @returns whether a move has become stuck since the last look */
  lookAt(placement: Placement | undefined, now: Instant): boolean {
    const moving = new Set(placement?.models.filter(({ next }) => next !== undefined).map(({ number }) => number));
    this.#now = now;
    for (const number of this.#since.keys()) if (!moving.has(number)) this.#since.delete(number);
    for (const number of moving) if (!this.#since.has(number)) this.#since.set(number, now);
    for (const [number, pinnedAt] of this.#pinnedAt)
      if (between(pinnedAt, now) > PINNED_EPOCHS * this.#epoch) this.#pinnedAt.delete(number);
    let isNews = false;
    for (const [number, since] of this.#since) {
      if (between(since, now) <= STUCK_EPOCHS * this.#epoch || this.#pinnedAt.has(number)) continue;
      this.#pinnedAt.set(number, now);
      isNews = true;
    }
    return isNews;
  }

  marksOf(number: number): Pick<ModelToPlace, "isPinned" | "isStuck"> {
    const since = this.#since.get(number);
    const isStuck = since !== undefined && between(since, this.#now) > STUCK_EPOCHS * this.#epoch;
    return { isPinned: this.#pinnedAt.has(number), isStuck };
  }

  /** Bytes that may still move in this epoch: a share of all, or at least the largest model and back. */
  budget(models: readonly Pick<ModelToPlace, "memoryBytes">[], share: number, now: Instant): number {
    this.#spent = this.#spent.filter(({ at }) => between(at, now) < this.#epoch);
    const all = models.reduce((sum, { memoryBytes }) => sum + 2 * memoryBytes, 0);
    const largest = models.reduce((most, { memoryBytes }) => Math.max(most, 2 * memoryBytes), 0);
    const spent = this.#spent.reduce((sum, { cost }) => sum + cost, 0);
    // Models of unknown size cost next to nothing, but not nothing.
    return Math.max(0, Math.max(share * all, largest, 2) - spent);
  }

  note(moves: readonly ModelMove[], now: Instant): void {
    for (const { cost, isForced } of moves) if (!isForced) this.#spent.push({ at: now, cost: Math.max(2, cost) });
  }
}
