/**
 * W: the candidates whose model timer fired while no accelerator was free in time. docs/algorithms.md, A4 and A5. Its
 * heaps are over the same slots: for each class of accelerators by (latest, thread id) those that it can run, and all
 * by longest delay, from which the match timer follows.
 *
 *   WAITING-1. A slot is in the heap by delay and in those of its classes, or in none, and only after its model timer
 *              fired.
 */
import { IndexedHeap } from "@tutti/collections";
import type { Instant, Micros, ThreadId } from "@tutti/units";

export class WaitingSet {
  readonly #slotsMax: number;
  /** By class of accelerators. */
  readonly #byLatest: IndexedHeap[] = [];
  readonly #byDelay: IndexedHeap;

  constructor(slotsMax: number) {
    this.#slotsMax = slotsMax;
    this.#byDelay = new IndexedHeap(slotsMax);
  }

  get size(): number {
    return this.#byDelay.size;
  }
  /** Whether an accelerator of this class could run any. */
  hasFor(index: number): boolean {
    return this.#byLatest[index]!.size > 0;
  }
  /** The slot of least (latest, thread) that this class can run; −1: none. */
  mostUrgent(index: number): number {
    return this.#byLatest[index]!.topKey;
  }
  /** Its latest start; `NEVER`: none. */
  leastLatest(index: number): Instant {
    return this.#byLatest[index]!.topPriority as Instant;
  }
  /** The longest delay of all; −Infinity when empty. */
  get longestDelay(): number {
    return -this.#byDelay.topPriority;
  }
  has(slot: number): boolean {
    return this.#byDelay.has(slot);
  }
  /** Makes room for accelerators of so many classes. */
  grow(classes: number): void {
    while (this.#byLatest.length < classes) this.#byLatest.push(new IndexedHeap(this.#slotsMax));
  }
  /** @param classes - a bit for each class that can run it */
  add(slot: number, thread: ThreadId, latest: Instant, delay: Micros, classes: number): void {
    this.#byDelay.set(slot, -delay, thread);
    const heaps = this.#byLatest;
    for (let i = 0; i < heaps.length; i++) if (((classes >> i) & 1) === 1) heaps[i]!.set(slot, latest, thread);
  }
  remove(slot: number): void {
    if (!this.#byDelay.remove(slot)) return;
    const heaps = this.#byLatest;
    for (let i = 0; i < heaps.length; i++) heaps[i]!.remove(slot);
  }
}
