/**
 * A binary heap over small integer keys, ordered by (priority, tie). Any key can be moved or removed by name.
 *
 *   H1. A key is in the heap at most once; `set` on a key that is there moves it.
 *   H2. The order is total: (priority, tie), and ties are distinct. `tie` is the key unless told otherwise.
 *   H3. No step allocates, except when a key larger than any before makes the arrays grow (doubling, up to keysMax).
 */
import { assert } from "@tutti/units";

export class IndexedHeap {
  readonly #keysMax: number;
  /** Key at each position of the heap. */
  #keys: Int32Array;
  /** Position + 1 of each key; 0: not in the heap. */
  #places: Int32Array;
  #priorities: Float64Array;
  #ties: Float64Array;
  #size = 0;

  /** @param keysMax - keys are 0 … keysMax − 1; the bound of its memory (24 bytes a key, allocated as keys appear) */
  constructor(keysMax: number) {
    assert(Number.isInteger(keysMax) && keysMax > 0, `a heap of ${keysMax} keys`);
    this.#keysMax = keysMax;
    const room = Math.min(keysMax, 16);
    this.#keys = new Int32Array(room);
    this.#places = new Int32Array(room);
    this.#priorities = new Float64Array(room);
    this.#ties = new Float64Array(room);
  }

  get size(): number {
    return this.#size;
  }
  /** The key of least (priority, tie); −1 when empty. */
  get topKey(): number {
    return this.#size === 0 ? -1 : this.#keys[0]!;
  }
  /** The least priority; +Infinity when empty, so that it can stand for a timer that is off. */
  get topPriority(): number {
    return this.#size === 0 ? Infinity : this.#priorities[this.#keys[0]!]!;
  }
  has(key: number): boolean {
    return key < this.#places.length && this.#places[key] !== 0;
  }
  /** The priority of `key`; +Infinity if it is not in the heap. */
  priority(key: number): number {
    return this.has(key) ? this.#priorities[key]! : Infinity;
  }

  /** Inserts `key`, or moves it. O(log n). */
  set(key: number, priority: number, tie: number = key): void {
    if (key >= this.#places.length) this.#grow(key);
    this.#priorities[key] = priority;
    this.#ties[key] = tie;
    const place = this.#places[key]!;
    if (place === 0) this.#rise(this.#size++, key);
    else if (place > 1 && this.#precedes(key, this.#keys[(place - 2) >> 1]!)) this.#rise(place - 1, key);
    else this.#sink(place - 1, key);
  }

  /** Takes `key` out; false if it was not there. O(log n). */
  remove(key: number): boolean {
    if (!this.has(key)) return false;
    const hole = this.#places[key]! - 1;
    this.#places[key] = 0;
    this.#size--;
    if (hole === this.#size) return true;
    const last = this.#keys[this.#size]!;
    if (hole > 0 && this.#precedes(last, this.#keys[(hole - 1) >> 1]!)) this.#rise(hole, last);
    else this.#sink(hole, last);
    return true;
  }

  /** Takes out the key of least (priority, tie); −1 when empty. */
  pop(): number {
    const key = this.topKey;
    if (key >= 0) this.remove(key);
    return key;
  }

  clear(): void {
    for (let i = 0; i < this.#size; i++) this.#places[this.#keys[i]!] = 0;
    this.#size = 0;
  }

  #precedes(a: number, b: number): boolean {
    const left = this.#priorities[a]!;
    const right = this.#priorities[b]!;
    return left < right || (left === right && this.#ties[a]! < this.#ties[b]!);
  }

  /** Puts `key` at `hole` or nearer the root; the hole travels, so each level costs one write. */
  #rise(hole: number, key: number): void {
    const keys = this.#keys;
    const places = this.#places;
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = keys[parent]!;
      if (!this.#precedes(key, above)) break;
      keys[hole] = above;
      places[above] = hole + 1;
      hole = parent;
    }
    keys[hole] = key;
    places[key] = hole + 1;
  }

  #sink(hole: number, key: number): void {
    const keys = this.#keys;
    const places = this.#places;
    const size = this.#size;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#precedes(keys[child + 1]!, keys[child]!)) child++;
      const below = keys[child]!;
      if (!this.#precedes(below, key)) break;
      keys[hole] = below;
      places[below] = hole + 1;
      hole = child;
    }
    keys[hole] = key;
    places[key] = hole + 1;
  }

  #grow(key: number): void {
    assert(Number.isInteger(key) && key >= 0 && key < this.#keysMax, `key ${key} of a heap of ${this.#keysMax} keys`);
    const room = Math.min(this.#keysMax, Math.max(2 * this.#places.length, key + 1));
    const widened = <A extends Int32Array | Float64Array>(from: A, to: A): A => (to.set(from), to);
    this.#keys = widened(this.#keys, new Int32Array(room));
    this.#places = widened(this.#places, new Int32Array(room));
    this.#priorities = widened(this.#priorities, new Float64Array(room));
    this.#ties = widened(this.#ties, new Float64Array(room));
  }
}
