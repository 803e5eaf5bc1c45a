/**
 * The ranker's slot of each model. Every offer needs it, so it is open addressing in arrays: a Map costs twice as much
 * where hundreds of models leave little of it in the cache.
 *
 *   SLOT-1. A thread has one slot at most, and a slot one thread.
 */
import { IdentityIndex } from "@tutti/collections";
import type { ThreadId } from "@tutti/units";

const ROOM = 64;
const FREE = -1;
/** First half of every identity: threads are identified by their numbers alone. */
const ALL = 0;

export class ThreadSlots {
  #index = new IdentityIndex(ROOM);
  /** Threads by slot; FREE: the slot is unused. */
  readonly #threads: number[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }
  /** Slot of a thread; −1: it has none. */
  get(thread: ThreadId): number {
    return this.#index.get(ALL, thread);
  }
  /** Gives a slot to a thread. Neither may have a partner yet. */
  set(thread: ThreadId, slot: number): void {
    if (slot >= this.#index.slots) this.#grow(slot);
    while (this.#threads.length <= slot) this.#threads.push(FREE);
    this.#threads[slot] = thread;
    this.#index.put(ALL, thread, slot);
    this.#size++;
  }
  /** Frees a slot, which must be in use. */
  delete(slot: number): void {
    this.#index.delete(slot);
    this.#threads[slot] = FREE;
    this.#size--;
  }
  /** Iterates over the threads and their slots. */
  *[Symbol.iterator](): Generator<readonly [ThreadId, number]> {
    for (const [slot, thread] of this.#threads.entries()) if (thread !== FREE) yield [thread as ThreadId, slot];
  }

  #grow(largest: number): void {
    let room = this.#index.slots;
    while (room <= largest) room *= 2;
    this.#index = new IdentityIndex(room);
    for (const [thread, slot] of this) this.#index.put(ALL, thread, slot);
  }
}
