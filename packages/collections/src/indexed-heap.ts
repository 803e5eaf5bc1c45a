/**
 * A heap over small integer keys, ordered by (priority, tie). Any key can be moved or removed by name. Each node has
 * four children, whose priorities lie beside one another: half as many levels as with two, and about one cache line for
 * each.
 *
 *   HEAP-1. A key is in the heap at most once; `set` on a key that is there moves it.
 *   HEAP-2. The order is total: (priority, tie), and ties are distinct. `tie` is the key by default.
 *   HEAP-3. No step allocates, except when a key larger than any before makes the arrays grow (doubling, up to
 *           keysMax).
 */
import { assert } from "@tutti/units";

export class IndexedHeap {
  readonly #keysMax: number;
  /** Keys by position in the heap. */
  #keys: Int32Array;
  #priorities: Float64Array;
  /** Position + 1 of each key; 0: not in the heap. */
  #places: Int32Array;
  /** Ties by key, read only between equal priorities. */
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
    return this.#size === 0 ? Infinity : this.#priorities[0]!;
  }
  has(key: number): boolean {
    return key < this.#places.length && this.#places[key] !== 0;
  }
  /** The priority of `key`; +Infinity if it is not in the heap. */
  priority(key: number): number {
    return this.has(key) ? this.#priorities[this.#places[key]! - 1]! : Infinity;
  }

  /** Inserts `key`, or moves it. O(log n). */
  set(key: number, priority: number, tie: number = key): void {
    if (key >= this.#places.length) this.#grow(key);
    this.#ties[key] = tie;
    const place = this.#places[key]!;
    if (place === 0) this.#rise(this.#size++, key, priority);
    else this.#move(place - 1, key, priority);
  }

  /** Takes `key` out; false if it was not there. O(log n). */
  remove(key: number): boolean {
    if (!this.has(key)) return false;
    const hole = this.#places[key]! - 1;
    this.#places[key] = 0;
    const last = --this.#size;
    if (hole < last) this.#move(hole, this.#keys[last]!, this.#priorities[last]!);
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

  /** Puts `key` at `hole`, or moves it up or down to its place. */
  #move(hole: number, key: number, priority: number): void {
    const parent = (hole - 1) >> 2;
    if (hole > 0 && this.#priorities[parent]! >= priority) this.#rise(hole, key, priority);
    else this.#sink(hole, key, priority);
  }

  /**
   * Puts `key` at `hole` or nearer the root, or in its place below if it is not before its parent. The hole travels, so
   * nothing is written twice.
   */
  #rise(hole: number, key: number, priority: number): void {
    const keys = this.#keys;
    const places = this.#places;
    const priorities = this.#priorities;
    const start = hole;
    while (hole > 0) {
      const parent = (hole - 1) >> 2;
      const above = priorities[parent]!;
      if (above < priority || (above === priority && this.#ties[keys[parent]!]! < this.#ties[key]!)) break;
      const other = keys[parent]!;
      keys[hole] = other;
      priorities[hole] = above;
      places[other] = hole + 1;
      hole = parent;
    }
    keys[hole] = key;
    priorities[hole] = priority;
    places[key] = hole + 1;
    if (hole === start) this.#sink(hole, key, priority);
  }

  #sink(hole: number, key: number, priority: number): void {
    const keys = this.#keys;
    const places = this.#places;
    const priorities = this.#priorities;
    const size = this.#size;
    for (let first = 4 * hole + 1; first < size; first = 4 * hole + 1) {
      let least = first;
      let lowest = priorities[first]!;
      const end = first + 4 < size ? first + 4 : size;
      for (let place = first + 1; place < end; place++) {
        const one = priorities[place]!;
        if (one > lowest || (one === lowest && this.#ties[keys[place]!]! > this.#ties[keys[least]!]!)) continue;
        least = place;
        lowest = one;
      }
      if (priority < lowest || (priority === lowest && this.#ties[key]! < this.#ties[keys[least]!]!)) break;
      const other = keys[least]!;
      keys[hole] = other;
      priorities[hole] = lowest;
      places[other] = hole + 1;
      hole = least;
    }
    keys[hole] = key;
    priorities[hole] = priority;
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
