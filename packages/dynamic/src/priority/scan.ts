import { assert } from "@tutti/units";
import type { PriorityStructure } from "./priority-structure.ts";

/**
 * Lines in typed arrays, removal by swapping, one pass over all per pop: what the kinetic tournament is checked
 * against.
 */
export class Scan implements PriorityStructure {
  #alpha = new Float64Array(16);
  #beta = new Float64Array(16);
  #deadlines = new Float64Array(16);
  #orders = new Float64Array(16);
  /** Slot at each place, and place + 1 of each slot. */
  #slots = new Int32Array(16);
  #places = new Int32Array(16);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  insert(slot: number, alpha: number, beta: number, deadline: number, order: number): void {
    if (slot >= this.#places.length) this.#grow(slot + 1);
    assert(this.#places[slot] === 0, "the slot is in already");
    this.#slots[this.#size] = slot;
    this.#places[slot] = ++this.#size;
    this.#alpha[slot] = alpha;
    this.#beta[slot] = beta;
    this.#deadlines[slot] = deadline;
    this.#orders[slot] = order;
  }
  remove(slot: number): void {
    const place = (this.#places[slot] ?? 0) - 1;
    if (place < 0) return;
    this.#places[slot] = 0;
    const last = this.#slots[--this.#size]!;
    if (last === slot) return;
    this.#slots[place] = last;
    this.#places[last] = place + 1;
  }
  update(slot: number, alpha: number, beta: number): void {
    assert((this.#places[slot] ?? 0) > 0, "the slot is not in");
    this.#alpha[slot] = alpha;
    this.#beta[slot] = beta;
  }

  popBest(x: number, count: number, out: number[]): number {
    let taken = 0;
    for (let i = 0; i < this.#size; i++) {
      const slot = this.#slots[i]!;
      if (taken === count && (count === 0 || !this.#precedes(slot, out[count - 1]!, x))) continue;
      // The best so far stay in order: few of many slots get in.
      let place = taken < count ? taken++ : count - 1;
      for (; place > 0 && this.#precedes(slot, out[place - 1]!, x); place--) out[place] = out[place - 1]!;
      out[place] = slot;
    }
    for (let i = 0; i < taken; i++) this.remove(out[i]!);
    return taken;
  }
  rebase(): void {
    // Nothing here hangs on x.
  }

  #precedes(a: number, b: number, x: number): boolean {
    const [left, right] = [this.#alpha[a]! * x + this.#beta[a]!, this.#alpha[b]! * x + this.#beta[b]!];
    return left > right || (left === right && this.#isEarlier(a, b));
  }
  #isEarlier(a: number, b: number): boolean {
    const [first, second] = [this.#deadlines[a]!, this.#deadlines[b]!];
    return first < second || (first === second && this.#orders[a]! < this.#orders[b]!);
  }
  #grow(slots: number): void {
    const room = Math.max(2 * this.#places.length, slots);
    const widened = <A extends Int32Array | Float64Array>(from: A, to: A): A => (to.set(from), to);
    this.#slots = widened(this.#slots, new Int32Array(room));
    this.#places = widened(this.#places, new Int32Array(room));
    this.#alpha = widened(this.#alpha, new Float64Array(room));
    this.#beta = widened(this.#beta, new Float64Array(room));
    this.#deadlines = widened(this.#deadlines, new Float64Array(room));
    this.#orders = widened(this.#orders, new Float64Array(room));
  }
}
