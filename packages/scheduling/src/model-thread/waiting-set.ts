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

interface Waiting {
  readonly thread: ThreadId;
  readonly latest: Instant;
  readonly delay: Micros;
  readonly classes: number;
}

export class WaitingSet {
  readonly #slotsMax: number;
  /** By class of accelerators. */
  readonly #byLatest: IndexedHeap[] = [];
  /** The same of those that some accelerators can't run. */
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
    return this.#byLatest[index]!.size > 0;
  }
  /** The slot of least (latest, thread) that this class can run; −1: none. */
  mostUrgent(index: number): number {
    return this.#byLatest[index]!.topKey;
  }
  /** The same, of those that some accelerators can't run while there are any: others can go elsewhere. */
  first(index: number): number {
    const restricted = this.#restricted[index]!;
    return restricted.size > 0 ? restricted.topKey : this.mostUrgent(index);
  }
  /** Latest start of the most urgent; `NEVER`: none. */
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
  /** Whether it goes before those that can run everywhere. */
  goesFirst(slot: number): boolean {
    return this.#restricted.some((heap) => heap.has(slot));
  }
  /** Makes room for accelerators of so many classes. */
  grow(classes: number): void {
    for (const heaps of [this.#byLatest, this.#restricted])
      while (heaps.length < classes) heaps.push(new IndexedHeap(this.#slotsMax));
  }
  /**
   * @param classes - a bit for each class that can run it
   * @param isRestricted - whether some accelerators are of other classes
   */
  add(slot: number, { thread, latest, delay, classes }: Waiting, isRestricted: boolean): void {
    this.#byDelay.set(slot, -delay, thread);
    const heaps = this.#byLatest;
    for (let i = 0; i < heaps.length; i++) {
      if (((classes >> i) & 1) === 0) continue;
      heaps[i]!.set(slot, latest, thread);
      if (isRestricted) this.#restricted[i]!.set(slot, latest, thread);
    }
  }
  remove(slot: number): void {
    if (!this.#byDelay.remove(slot)) return;
    const heaps = this.#byLatest;
    for (let i = 0; i < heaps.length; i++) if (heaps[i]!.remove(slot)) this.#restricted[i]!.remove(slot);
  }
}
