/**
 * Requests that arrived out of deadline order, by (deadline, ingress, seq): the heap beside a DeadlineQueue's ring. A
 * slot belongs to a request until the request leaves.
 *
 *   DH1. Slots are 0 … room − 1; a slot is in use exactly while its request is in the heap.
 */
import type { Queued } from "./deadline-queue.ts";

const ROOM = 16;

export class DeadlineHeap<T extends Queued> {
  /** Requests by slot. */
  #items: (T | undefined)[] = new Array<T | undefined>(ROOM).fill(undefined);
  /** Position of each slot. */
  #places: Int32Array = new Int32Array(ROOM);
  /** Slot at each position; behind the heap, the slots not in use. */
  #slots: Int32Array = Int32Array.from({ length: ROOM }, (_, i) => i);
  #size = 0;

  get size(): number {
    return this.#size;
  }
  get room(): number {
    return this.#slots.length;
  }
  get isFull(): boolean {
    return this.#size === this.#slots.length;
  }
  /** Slot of the least request; the heap must not be empty. */
  get topSlot(): number {
    return this.#slots[0]!;
  }
  /** The request in a slot; undefined: the slot is not in use. */
  at(slot: number): T | undefined {
    return this.#items[slot];
  }

  /** @returns the request's slot; there must be room */
  put(item: T): number {
    const slot = this.#slots[this.#size]!;
    this.#items[slot] = item;
    this.#rise(this.#size++, slot, item);
    return slot;
  }
  /** Removes the request of a slot in use. */
  take(slot: number): T {
    const item = this.#items[slot]!;
    this.#items[slot] = undefined;
    const hole = this.#places[slot]!;
    const last = this.#slots[--this.#size]!;
    this.#slots[this.#size] = slot;
    if (hole === this.#size) return item;
    const moved = this.#items[last]!;
    if (hole > 0 && precedes(moved, this.#items[this.#slots[(hole - 1) >> 1]!]!)) this.#rise(hole, last, moved);
    else this.#sink(hole, last, moved);
    return item;
  }
  grow(): void {
    const room = this.#slots.length;
    const slots = Int32Array.from({ length: 2 * room }, (_, i) => i);
    slots.set(this.#slots);
    const places = new Int32Array(2 * room);
    places.set(this.#places);
    this.#slots = slots;
    this.#places = places;
    for (let slot = room; slot < 2 * room; slot++) this.#items.push(undefined);
  }

  #rise(hole: number, slot: number, item: T): void {
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = this.#slots[parent]!;
      if (!precedes(item, this.#items[above]!)) break;
      this.#settle(hole, above);
      hole = parent;
    }
    this.#settle(hole, slot);
  }
  #sink(hole: number, slot: number, item: T): void {
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= this.#size) break;
      const right = child + 1;
      if (right < this.#size && precedes(this.#items[this.#slots[right]!]!, this.#items[this.#slots[child]!]!)) child++;
      const below = this.#slots[child]!;
      if (!precedes(this.#items[below]!, item)) break;
      this.#settle(hole, below);
      hole = child;
    }
    this.#settle(hole, slot);
  }
  #settle(place: number, slot: number): void {
    this.#slots[place] = slot;
    this.#places[slot] = place;
  }
}

/** Requests of one deadline are ordered by identity: docs/algorithms.md, section 0, ties. */
export function precedes(a: Queued, b: Queued): boolean {
  if (a.deadline !== b.deadline) return a.deadline < b.deadline;
  return a.ingress !== b.ingress ? a.ingress < b.ingress : a.seq < b.seq;
}
