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
  /** The same of those candidates that some class can't run: they go first where they can run. */
  readonly #restricted: IndexedHeap[] = [];
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
    return this.#firstOf(index).size > 0;
  }
  /** The slot of least (latest, thread) that this class can run, of restricted ones if there are any; −1: none. */
  mostUrgent(index: number): number {
    return this.#firstOf(index).topKey;
  }
  /** A slot that this class can run and whose latest start is before that time; −1: there is none. */
  lateFor(index: number, time: number): number {
    const unrestricted = this.#byLatest[index]!;
    const restricted = this.#restricted[index]!;
    if (unrestricted.topPriority < time) return unrestricted.topKey;
    return restricted.topPriority < time ? restricted.topKey : -1;
  }
  #firstOf(index: number): IndexedHeap {
    const restricted = this.#restricted[index]!;
    return restricted.size > 0 ? restricted : this.#byLatest[index]!;
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
    while (this.#byLatest.length < classes) {
      this.#byLatest.push(new IndexedHeap(this.#slotsMax));
      this.#restricted.push(new IndexedHeap(this.#slotsMax));
    }
  }
  /** @param classes - a bit for each class that can run it */
  add(
    slot: number,
    thread: ThreadId,
    { latest, delay, classes }: { readonly latest: Instant; readonly delay: Micros; readonly classes: number },
    isRestricted: boolean,
  ): void {
    this.#byDelay.set(slot, -delay, thread);
    const heaps = isRestricted ? this.#restricted : this.#byLatest;
    for (let i = 0; i < heaps.length; i++) if (((classes >> i) & 1) === 1) heaps[i]!.set(slot, latest, thread);
  }
  remove(slot: number): void {
    if (!this.#byDelay.remove(slot)) return;
    for (let i = 0; i < this.#byLatest.length; i++) {
      this.#byLatest[i]!.remove(slot);
      this.#restricted[i]!.remove(slot);
    }
  }
}
