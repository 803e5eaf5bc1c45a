/**
 * W: the candidates whose model timer fired while no accelerator was free in time. docs/algorithms.md, A4 and A5. It
 * has two heaps over the same slots: by (latest, thread id), and by longest delay, from which the match timer follows.
 *
 *   WAITING-1. A slot is in both heaps or in neither, and only after its model timer fired.
 */
import { IndexedHeap } from "@tutti/collections";
import type { Instant, Micros, ThreadId } from "@tutti/units";

export class WaitingSet {
  readonly #byLatest: IndexedHeap;
  readonly #byDelay: IndexedHeap;

  constructor(slotsMax: number) {
    this.#byLatest = new IndexedHeap(slotsMax);
    this.#byDelay = new IndexedHeap(slotsMax);
  }

  get size(): number {
    return this.#byLatest.size;
  }
  /** The slot of least (latest, thread); −1 when empty. */
  get mostUrgent(): number {
    return this.#byLatest.topKey;
  }
  /** Its latest start; `NEVER` when empty. */
  get leastLatest(): Instant {
    return this.#byLatest.topPriority as Instant;
  }
  /** The longest delay of all; −Infinity when empty. */
  get longestDelay(): number {
    return -this.#byDelay.topPriority;
  }
  has(slot: number): boolean {
    return this.#byLatest.has(slot);
  }
  add(slot: number, thread: ThreadId, latest: Instant, delay: Micros): void {
    this.#byLatest.set(slot, latest, thread);
    this.#byDelay.set(slot, -delay, thread);
  }
  remove(slot: number): void {
    if (this.#byLatest.remove(slot)) this.#byDelay.remove(slot);
  }
}
