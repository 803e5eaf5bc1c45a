/**
 * The pending requests of one model, ordered by (deadline, ingress, seq): docs/algorithms.md, A1 and A5.
 *
 * Requests of one SLO arrive in deadline order, so most of them append to a ring in O(1). A request that comes before
 * the ring's end (another SLO, a batch put back) goes into a heap beside it in O(log n). The head is the lesser of the
 * two.
 *
 *   Q1. Ring and heap together hold each request once; the ring is in order, and its first entry is alive.
 *   Q2. A request taken out of the middle of the ring leaves a dead entry, reclaimed when the head passes it or when
 *       the ring would have to grow; so there are never more than 4·capacity entries.
 *   Q3. At `capacity` requests an addition is refused, and nothing else changes.
 *   Q4. The index of identities is built only when a lookup needs it. While all requests come from one ingress, each
 *       newer than those before, none can be a repetition. The index is dropped when the queue is empty.
 *
 * With many queues, each is touched so seldom that its memory has left the processor's cache. So the usual addition
 * touches only the queue and its ring's end.
 */
import { assert } from "@tutti/units";
import { DeadlineHeap, precedes } from "./deadline-heap.ts";
import { IdentityIndex } from "./identity-index.ts";

export interface Queued {
  readonly deadline: number;
  readonly ingress: number;
  readonly seq: number;
}

const ROOM = 32;

export class DeadlineQueue<T extends Queued> {
  readonly capacity: number;
  /** Entries from head to tail, each at its place modulo the ring's length; a merge may move the head below 0. */
  #ring: (T | undefined)[] = new Array<T | undefined>(ROOM).fill(undefined);
  #mask = ROOM - 1;
  #head = 0;
  #tail = 0;
  #size = 0;
  /** Deadline of the ring's last entry; it bounds the order even when that entry is dead. */
  #lastDeadline = 0;
  /** Q4: the ingress whose requests are queued, and the newest seq among them. */
  #ingress = 0;
  #newest = 0;
  /** Requests that came out of order; undefined until the first one. */
  #heap: DeadlineHeap<T> | undefined = undefined;
  #heapSize = 0;
  /**
   * Q4: index by identity; 2·place for a place in the ring, 2·slot + 1 for a slot of the heap. Empty while not in use.
   */
  #index: IdentityIndex | undefined = undefined;
  #isIndexed = false;

  constructor(capacity: number) {
    assert(Number.isInteger(capacity) && capacity > 0, `a queue of ${capacity} requests`);
    this.capacity = capacity;
  }

  get size(): number {
    return this.#size;
  }

  /** The request with the least (deadline, ingress, seq). */
  head(): T | undefined {
    if (this.#heapSize > 0 && this.#isHeapFirst()) return this.#heap!.at(this.#heap!.topSlot);
    return this.#ring[this.#head & this.#mask];
  }
  /** Deadline of the head; +Infinity when the queue is empty. */
  headDeadline(): number {
    return this.head()?.deadline ?? Infinity;
  }
  /**
   * True if requests can be looked up by their places (`at`): none came out of order, and none has left from the middle
   * by `remove`. It sweeps dead entries, O(n), once they are a fifth of all; fewer go as the head passes them.
   */
  isRun(): boolean {
    if (this.#heapSize > 0) return false;
    const dead = this.#tail - this.#head - this.#size;
    if (4 * dead < this.#size) return dead === 0;
    if (dead > 0) this.#sweep(this.#ring.length);
    return true;
  }
  /**
   * Makes it a run: merges what came out of order, and sweeps dead entries. Nothing where it is one. Without dead
   * entries it moves only those before the last that is merged, or those behind the first, whichever are fewer: an
   * urgent request among many that can wait costs little.
   */
  makeRun(): void {
    let room = this.#ring.length;
    while (room < this.#size) room *= 2;
    if (room > this.#ring.length || this.#tail - this.#head > this.#size - this.#heapSize) this.#sweep(room);
    if (this.#heapSize > 0) this.#mergeHeap();
  }
  /** The request at a place in order, 0 … size − 1. Only while `isRun`. */
  at(place: number): T {
    return this.#ring[(this.#head + place) & this.#mask]!;
  }
  has(ingress: number, seq: number): boolean {
    return this.#find(ingress, seq) >= 0;
  }

  /** Adds a request. @returns "full" at the bound; "repeated" if a request of this identity is queued already */
  add(item: T): "added" | "repeated" | "full" {
    const { ingress, seq } = item;
    if (this.#isIndexed || !this.#isNewest(ingress, seq)) {
      if (this.#find(ingress, seq) >= 0) return "repeated";
      if (this.#size > 0) this.#useIndex();
    }
    if (this.#size === this.capacity) return "full";
    if (this.#size++ === 0 || seq > this.#newest) this.#newest = seq;
    this.#ingress = ingress;
    if (this.#head !== this.#tail && this.#precedesLast(item)) this.#intoHeap(item);
    else {
      if (this.#tail - this.#head > this.#mask) this.#makeRoom();
      const place = this.#tail++ & this.#mask;
      this.#ring[place] = item;
      this.#lastDeadline = item.deadline;
      if (this.#isIndexed) this.#index!.put(ingress, seq, 2 * place);
    }
    return "added";
  }

  /** Visits every request, in no particular order. */
  forEach(visit: (item: T) => void): void {
    for (let place = this.#head; place < this.#tail; place++) {
      const item = this.#ring[place & this.#mask];
      if (item !== undefined) visit(item);
    }
    for (let slot = 0, left = this.#heapSize; left > 0; slot++) {
      const item = this.#heap!.at(slot);
      if (item === undefined) continue;
      visit(item);
      left--;
    }
  }

  /** Removes and returns the head. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    if (this.#heapSize > 0 && this.#isHeapFirst()) return this.#leaveHeap(this.#heap!.topSlot);
    const place = this.#head & this.#mask;
    const item = this.#ring[place]!;
    this.#leaveRing(place);
    return item;
  }

  /** Removes and returns the first `count` requests, in order. */
  take(count: number): T[] {
    assert(count <= this.#size, `${count} of ${this.#size} requests`);
    const taken: T[] = [];
    for (let i = 0; i < count; i++) taken.push(this.shift()!);
    return taken;
  }

  /** Removes and returns `count` requests from a place on, in order. Only while `isRun`. O(first + count). */
  takeAt(first: number, count: number): T[] {
    if (first === 0 || count === 0) return this.take(count);
    assert(first + count <= this.#size, `${count} requests from ${first} on of ${this.#size}`);
    const taken: T[] = [];
    for (let at = this.#head + first; taken.length < count; at++) {
      const place = at & this.#mask;
      taken.push(this.#ring[place]!);
      this.#ring[place] = undefined;
      this.#size--;
      this.#forget(2 * place);
    }
    // The requests before them move up, so that the ring keeps no dead entries.
    for (let at = this.#head + first - 1; at >= this.#head; at--)
      this.#move(at & this.#mask, (at + count) & this.#mask);
    this.#head += count;
    return taken;
  }

  /** Removes and returns the request of this identity; undefined if it is not queued. */
  remove(ingress: number, seq: number): T | undefined {
    const code = this.#find(ingress, seq);
    if (code < 0) return undefined;
    if (code % 2 === 1) return this.#leaveHeap(code >> 1);
    const item = this.#ring[code >> 1]!;
    this.#leaveRing(code >> 1);
    return item;
  }

  /** Removes every request of an ingress that has died, and returns their count. O(n). */
  removeIngress(ingress: number): number {
    const its: T[] = [];
    this.forEach((item) => {
      if (item.ingress === ingress) its.push(item);
    });
    for (const { seq } of its) this.remove(ingress, seq);
    return its.length;
  }

  /** Q4: true if a request of this identity is certainly not queued. */
  #isNewest(ingress: number, seq: number): boolean {
    return this.#size === 0 || (ingress === this.#ingress && seq > this.#newest);
  }

  /** Code of a request's position, as in `#index`; −1: not queued. */
  #find(ingress: number, seq: number): number {
    if (!this.#isIndexed) {
      if (this.#isNewest(ingress, seq) || ingress !== this.#ingress) return -1;
      this.#useIndex();
    }
    return this.#index!.get(ingress, seq);
  }
  #useIndex(): void {
    if (this.#isIndexed) return;
    this.#isIndexed = true;
    const slots = 2 * Math.max(this.#ring.length, this.#heap?.room ?? 0);
    if (this.#index === undefined || this.#index.slots < slots) this.#index = new IdentityIndex(slots);
    const index = this.#index;
    for (let at = this.#head; at < this.#tail; at++) {
      const item = this.#ring[at & this.#mask];
      if (item !== undefined) index.put(item.ingress, item.seq, 2 * (at & this.#mask));
    }
    for (let slot = 0; this.#heapSize > 0 && slot < this.#heap!.room; slot++) {
      const item = this.#heap!.at(slot);
      if (item !== undefined) index.put(item.ingress, item.seq, 2 * slot + 1);
    }
  }
  /** Rebuilds the index after places have changed or outgrown it. */
  #indexAnew(): void {
    if (!this.#isIndexed) return;
    this.#isIndexed = false;
    this.#index = undefined;
    this.#useIndex();
  }

  #isHeapFirst(): boolean {
    if (this.#head === this.#tail) return true;
    const heap = this.#heap!;
    return precedes(heap.at(heap.topSlot)!, this.#ring[this.#head & this.#mask]!);
  }
  #intoHeap(item: T): void {
    const heap = (this.#heap ??= new DeadlineHeap<T>());
    if (heap.isFull) {
      heap.grow();
      this.#indexAnew();
    }
    const slot = heap.put(item);
    this.#heapSize++;
    if (this.#isIndexed) this.#index!.put(item.ingress, item.seq, 2 * slot + 1);
  }
  #leaveHeap(slot: number): T {
    this.#size--;
    this.#heapSize--;
    this.#forget(2 * slot + 1);
    return this.#heap!.take(slot);
  }

  /** Moves the heap into the ring, which has room for it and no dead entries. */
  #mergeHeap(): void {
    const heap = this.#heap!;
    const merged: T[] = [];
    for (; this.#heapSize > 0; this.#heapSize--) {
      const slot = heap.topSlot;
      if (this.#isIndexed) this.#index!.delete(2 * slot + 1);
      merged.push(heap.take(slot));
    }
    const count = merged.length;
    const before = this.#countBefore(merged[count - 1]!);
    const behind = this.#tail - this.#head - this.#countBefore(merged[0]!);
    if (before < behind) {
      let from = this.#head;
      let to = (this.#head -= count);
      for (const item of merged) {
        while (precedes(this.#ring[from & this.#mask]!, item)) this.#move(from++ & this.#mask, to++ & this.#mask);
        this.#enter(item, to++ & this.#mask);
      }
    } else {
      let from = this.#tail - 1;
      let to = (this.#tail += count) - 1;
      for (let i = count - 1; i >= 0; i--) {
        const item = merged[i]!;
        while (from >= this.#head && precedes(item, this.#ring[from & this.#mask]!))
          this.#move(from-- & this.#mask, to-- & this.#mask);
        this.#enter(item, to-- & this.#mask);
      }
    }
    this.#lastDeadline = this.#ring[(this.#tail - 1) & this.#mask]!.deadline;
  }
  /** Number of the ring's entries that go before a request. */
  #countBefore(item: T): number {
    let first = 0;
    let end = this.#tail - this.#head;
    while (first < end) {
      const middle = (first + end) >> 1;
      if (precedes(this.at(middle), item)) first = middle + 1;
      else end = middle;
    }
    return first;
  }
  #enter(item: T, place: number): void {
    this.#ring[place] = item;
    if (this.#isIndexed) this.#index!.put(item.ingress, item.seq, 2 * place);
  }

  #leaveRing(place: number): void {
    this.#ring[place] = undefined;
    this.#size--;
    this.#forget(2 * place);
    if (place !== (this.#head & this.#mask)) return;
    do this.#head++;
    while (this.#head !== this.#tail && this.#ring[this.#head & this.#mask] === undefined); // Q1
    if (this.#head === this.#tail) this.#head = this.#tail = 0;
  }
  #move(from: number, to: number): void {
    const item = this.#ring[from]!;
    this.#ring[to] = item;
    this.#ring[from] = undefined;
    if (!this.#isIndexed) return;
    this.#index!.delete(2 * from);
    this.#index!.put(item.ingress, item.seq, 2 * to);
  }
  #forget(code: number): void {
    if (!this.#isIndexed) return;
    this.#index!.delete(code);
    if (this.#size === 0) this.#isIndexed = false;
  }

  /**
   * Makes room in a full ring. It sweeps dead entries if they are at least half of the ring, and doubles it otherwise.
   */
  #makeRoom(): void {
    const entries = this.#tail - this.#head;
    const living = this.#size - 1 - this.#heapSize; // the request that is being added counts already
    this.#sweep(2 * living <= entries ? entries : 2 * entries);
  }

  /** Moves the living entries to the beginning of a ring of `room` places. */
  #sweep(room: number): void {
    const living: (T | undefined)[] = [];
    for (let at = this.#head; at < this.#tail; at++) {
      const item = this.#ring[at & this.#mask];
      if (item !== undefined) living.push(item);
    }
    this.#put(living, room);
  }
  /** Makes these the ring's entries, at the beginning of `room` places. */
  #put(entries: (T | undefined)[], room: number): void {
    const kept = entries.length;
    while (entries.length < room) entries.push(undefined);
    this.#ring = entries;
    this.#mask = room - 1;
    this.#head = 0;
    this.#tail = kept;
    this.#indexAnew();
  }

  /** Does `item` belong before the ring's last entry? */
  #precedesLast(item: T): boolean {
    if (item.deadline !== this.#lastDeadline) return item.deadline < this.#lastDeadline;
    const last = this.#ring[(this.#tail - 1) & this.#mask];
    return last === undefined || precedes(item, last);
  }
}
