/**
 * Which slot of the ranker each model has. Every offer asks for it, so it is open addressing in arrays: a Map costs
 * twice as much where hundreds of models leave little of it in the cache.
 *
 *   TS1. A thread has one slot at most, and a slot one thread.
 */
import { IdentityIndex } from "@tutti/collections";
import type { ThreadId } from "@tutti/units";

const ROOM = 64;
const FREE = -1;
/** Threads are numbers by themselves: the first half of their identity is the same for all. */
const ALL = 0;

export class ThreadSlots {
  #index = new IdentityIndex(ROOM);
  /** By slot; FREE where it is nobody's. */
  readonly #threads: number[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }
  /** −1: it has none. */
  get(thread: ThreadId): number {
    return this.#index.get(ALL, thread);
  }
  /** Both must be without the other. */
  set(thread: ThreadId, slot: number): void {
    if (slot >= this.#index.slots) this.#grow(slot);
    while (this.#threads.length <= slot) this.#threads.push(FREE);
    this.#threads[slot] = thread;
    this.#index.put(ALL, thread, slot);
    this.#size++;
  }
  /** The slot must be somebody's. */
  delete(slot: number): void {
    this.#index.delete(slot);
    this.#threads[slot] = FREE;
    this.#size--;
  }
  /** Threads and their slots. */
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
