/**
 * A segment tree over the ids 0 … capacity − 1 that keeps the least value of every subtree. It answers the two
 * questions of matchmaking: how early is anything free, and which is the smallest id free by x. docs/algorithms.md, A5.
 *
 *   TREE-1. The value of an inner node is the least of its two children; of an id never set, +Infinity.
 *   TREE-2. No step allocates, except when an id larger than any before makes the tree grow (doubling, up to its
 *           capacity).
 */
import { assert } from "@tutti/units";

/** Number of ids with room at first. */
const ROOM = 16;

export class MinTree {
  readonly capacity: number;
  #leaves: number;
  /** Values by node. Node 1 is the root, node i has the children 2i and 2i+1, the leaf of id is #leaves + id. */
  #least: Float64Array;

  /** @param capacity - the bound of its memory (32 bytes an id, allocated as ids appear) */
  constructor(capacity: number) {
    assert(Number.isInteger(capacity) && capacity > 0, `a tree of ${capacity} ids`);
    this.capacity = capacity;
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.min(capacity, ROOM)));
    this.#least = new Float64Array(2 * this.#leaves).fill(Infinity);
  }

  /** The least value of all; +Infinity if every id is unset. O(1). */
  get min(): number {
    return this.#least[1]!;
  }
  get(id: number): number {
    assert(id >= 0 && id < this.capacity, `id ${id} of a tree of ${this.capacity}`);
    return id < this.#leaves ? this.#least[this.#leaves + id]! : Infinity;
  }

  /** Sets the value of an id. O(log n), and it stops at the first subtree whose least value doesn't change. */
  set(id: number, value: number): void {
    assert(id >= 0 && id < this.capacity, `id ${id} of a tree of ${this.capacity}`);
    if (id >= this.#leaves) this.#grow(id);
    const least = this.#least;
    let node = this.#leaves + id;
    least[node] = value;
    while (node > 1) {
      const left = least[node & ~1]!;
      const right = least[node | 1]!;
      const lower = left < right ? left : right;
      node >>= 1;
      if (least[node] === lower) return;
      least[node] = lower;
    }
  }

  /**
   * The smallest id whose value is ≤ bound; −1 if there is none. It is never an unset id, whatever the bound. O(log n).
   */
  firstAtMost(bound: number): number {
    const least = this.#least;
    const most = bound < Number.MAX_VALUE ? bound : Number.MAX_VALUE;
    if (!(least[1]! <= most)) return -1;
    let node = 1;
    while (node < this.#leaves) {
      node *= 2;
      if (!(least[node]! <= most)) node++;
    }
    return node - this.#leaves;
  }

  /** The smallest id among those of the least value; −1 if every id is unset. */
  firstMin(): number {
    return this.firstAtMost(this.#least[1]!);
  }

  #grow(id: number): void {
    const before = this.#least.subarray(this.#leaves);
    this.#leaves = 2 ** Math.ceil(Math.log2(id + 1));
    const least = (this.#least = new Float64Array(2 * this.#leaves).fill(Infinity));
    least.set(before, this.#leaves);
    for (let node = this.#leaves - 1; node > 0; node--) least[node] = Math.min(least[2 * node]!, least[2 * node + 1]!);
  }
}
