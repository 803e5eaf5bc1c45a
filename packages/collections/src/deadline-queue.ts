/**
 * The pending requests of one model, ordered by (deadline, ingress, seq): docs/algorithms.md, A1 and A5.
 *
 * Requests of one SLO arrive in deadline order, so most of them append to a ring in O(1); one that comes before the
 * ring's end (another SLO, a batch put back) goes into a heap beside it in O(log n). The head is the lesser of the two.
 *
 *   Q1. Ring and heap together hold each request once; the ring is in order, and its first entry is alive.
 *   Q2. A request taken out of the middle of the ring leaves a dead entry, reclaimed when the head passes it or when
 *       the ring would have to grow; so there are never more than 2·capacity entries.
 *   Q3. At `capacity` requests an addition is refused, and nothing else changes.
 */
import { assert } from "@tutti/units";
import { IdentityIndex } from "./identity-index.ts";

export interface Queued {
  readonly deadline: number;
  readonly ingress: number;
  readonly seq: number;
}

export class DeadlineQueue<T extends Queued> {
  readonly capacity: number;
  #items: (T | undefined)[] = [];
  #deadlines: Float64Array;
  #index: IdentityIndex;
  /** Slots not in use: a stack. */
  #spare: Int32Array;
  #spares: number;
  /** Slots in order; head and tail only count up. */
  #ring: Int32Array;
  #head = 0;
  #tail = 0;
  #heap: Int32Array;
  /** Position + 1 in the heap of each slot; 0: the slot is in the ring. */
  #heapPlaces: Int32Array;
  #heapSize = 0;
  #size = 0;

  constructor(capacity: number) {
    assert(Number.isInteger(capacity) && capacity > 0, `a queue of ${capacity} requests`);
    this.capacity = capacity;
    const room = 32;
    this.#deadlines = new Float64Array(room);
    this.#index = new IdentityIndex(room);
    this.#spare = Int32Array.from({ length: room }, (_, i) => room - 1 - i);
    this.#spares = room;
    this.#items = new Array<T | undefined>(room).fill(undefined);
    this.#ring = new Int32Array(room);
    this.#heap = new Int32Array(room);
    this.#heapPlaces = new Int32Array(room);
  }

  get size(): number {
    return this.#size;
  }

  /** The request of least (deadline, ingress, seq). */
  head(): T | undefined {
    return this.#size === 0 ? undefined : this.#items[this.#headSlot()];
  }
  /** Its deadline; +Infinity when empty. */
  headDeadline(): number {
    return this.#size === 0 ? Infinity : this.#deadlines[this.#headSlot()]!;
  }
  has(ingress: number, seq: number): boolean {
    return this.#index.get(ingress, seq) >= 0;
  }

  /** "full" at the bound; "repeated" if a request of this identity is queued already. */
  add(item: T): "added" | "repeated" | "full" {
    if (this.#index.get(item.ingress, item.seq) >= 0) return "repeated";
    if (this.#size === this.capacity) return "full";
    if (this.#spares === 0) this.#makeRoom();
    const slot = this.#spare[--this.#spares]!;
    this.#items[slot] = item;
    this.#deadlines[slot] = item.deadline;
    this.#index.put(item.ingress, item.seq, slot);
    this.#size++;
    const mask = this.#ring.length - 1;
    if (this.#head === this.#tail || !this.#precedesLast(item, this.#ring[(this.#tail - 1) & mask]!)) {
      this.#ring[this.#tail++ & mask] = slot;
    } else this.#rise(this.#heapSize++, slot);
    return "added";
  }

  /** Takes the head out. */
  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const slot = this.#headSlot();
    const item = this.#items[slot]!;
    this.#index.delete(slot);
    this.#items[slot] = undefined;
    this.#size--;
    if (this.#heapPlaces[slot] === 0) this.#passDead();
    else this.#leaveHeap(slot);
    return item;
  }

  /** Takes the first `count` requests out, in order. */
  take(count: number): T[] {
    assert(count <= this.#size, `${count} of ${this.#size} requests`);
    const taken: T[] = [];
    for (let i = 0; i < count; i++) taken.push(this.shift()!);
    return taken;
  }

  /** Takes the request of this identity out; undefined if it is not queued. */
  remove(ingress: number, seq: number): T | undefined {
    const slot = this.#index.get(ingress, seq);
    if (slot < 0) return undefined;
    const item = this.#items[slot]!;
    this.#discard(slot);
    return item;
  }

  /** Takes every request of one ingress out and says how many there were. O(n): for the death of an ingress. */
  removeIngress(ingress: number): number {
    let removed = 0;
    for (let slot = 0; slot < this.#items.length; slot++) {
      if (this.#items[slot]?.ingress !== ingress) continue;
      this.#discard(slot);
      removed++;
    }
    return removed;
  }

  #discard(slot: number): void {
    this.#index.delete(slot);
    this.#items[slot] = undefined;
    this.#size--;
    if (this.#heapPlaces[slot] !== 0) this.#leaveHeap(slot);
    else if (this.#ring[this.#head & (this.#ring.length - 1)] === slot) this.#passDead();
  }

  #headSlot(): number {
    if (this.#heapSize === 0) return this.#ring[this.#head & (this.#ring.length - 1)]!;
    const other = this.#heap[0]!;
    if (this.#head === this.#tail) return other;
    const first = this.#ring[this.#head & (this.#ring.length - 1)]!;
    return this.#precedes(other, first) ? other : first;
  }

  /** Drops dead entries at the ring's front: Q1. */
  #passDead(): void {
    const mask = this.#ring.length - 1;
    while (this.#head !== this.#tail) {
      const slot = this.#ring[this.#head & mask]!;
      if (this.#items[slot] !== undefined) return;
      this.#head++;
      this.#spare[this.#spares++] = slot;
    }
    this.#head = this.#tail = 0;
  }

  /** Every slot is in use: dead entries are swept if they are a half, otherwise everything doubles. */
  #makeRoom(): void {
    const room = this.#items.length;
    const mask = this.#ring.length - 1;
    const living = Int32Array.from({ length: this.#tail - this.#head }, (_, i) => this.#ring[(this.#head + i) & mask]!);
    let kept = 0;
    for (const slot of living) {
      if (this.#items[slot] === undefined) this.#spare[this.#spares++] = slot;
      else living[kept++] = slot;
    }
    const wider = this.#spares * 2 >= room ? room : 2 * room;
    if (wider > room) {
      this.#index.grow(wider);
      this.#deadlines = widened(this.#deadlines, new Float64Array(wider));
      this.#heap = widened(this.#heap, new Int32Array(wider));
      this.#heapPlaces = widened(this.#heapPlaces, new Int32Array(wider));
      this.#spare = widened(this.#spare, new Int32Array(wider));
      this.#ring = new Int32Array(wider);
      for (let slot = wider - 1; slot >= room; slot--) {
        this.#spare[this.#spares++] = slot;
        this.#items.push(undefined);
      }
    }
    this.#ring.set(living.subarray(0, kept));
    this.#head = 0;
    this.#tail = kept;
  }

  /** Does `item` belong before the ring's last entry? The last may be dead; its deadline still bounds the order. */
  #precedesLast(item: T, last: number): boolean {
    const deadline = this.#deadlines[last]!;
    if (item.deadline !== deadline) return item.deadline < deadline;
    const alive = this.#items[last];
    return alive === undefined || before(item, alive);
  }
  #precedes(a: number, b: number): boolean {
    const left = this.#deadlines[a]!;
    const right = this.#deadlines[b]!;
    return left !== right ? left < right : before(this.#items[a]!, this.#items[b]!);
  }

  #rise(hole: number, slot: number): void {
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = this.#heap[parent]!;
      if (!this.#precedes(slot, above)) break;
      this.#settle(hole, above);
      hole = parent;
    }
    this.#settle(hole, slot);
  }
  #sink(hole: number, slot: number): void {
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= this.#heapSize) break;
      if (child + 1 < this.#heapSize && this.#precedes(this.#heap[child + 1]!, this.#heap[child]!)) child++;
      const below = this.#heap[child]!;
      if (!this.#precedes(below, slot)) break;
      this.#settle(hole, below);
      hole = child;
    }
    this.#settle(hole, slot);
  }
  #settle(place: number, slot: number): void {
    this.#heap[place] = slot;
    this.#heapPlaces[slot] = place + 1;
  }
  #leaveHeap(slot: number): void {
    const hole = this.#heapPlaces[slot]! - 1;
    this.#heapPlaces[slot] = 0;
    this.#spare[this.#spares++] = slot;
    this.#heapSize--;
    if (hole === this.#heapSize) return;
    const last = this.#heap[this.#heapSize]!;
    if (hole > 0 && this.#precedes(last, this.#heap[(hole - 1) >> 1]!)) this.#rise(hole, last);
    else this.#sink(hole, last);
  }
}

/** Requests of one deadline go by identity: docs/algorithms.md, section 0, ties. */
const before = (a: Queued, b: Queued): boolean => (a.ingress !== b.ingress ? a.ingress < b.ingress : a.seq < b.seq);

const widened = <A extends Int32Array | Float64Array>(from: A, to: A): A => (to.set(from), to);
