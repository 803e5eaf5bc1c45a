/**
 * A kinetic tournament: a complete binary tree over slots. Each node holds the winner among its leaves at the current x, and until which x
 * nothing below it changes (docs/algorithms.md, B7). Changing a leaf costs O(log n); a growing x recomputes only the nodes whose time has come.
 *
 *   KT1. A node's winner is the better of its children's at the current x; `until` is the least of theirs and of the x where the loser overtakes.
 *   KT2. No step allocates, except when a slot larger than any before makes the tree grow (doubling).
 */
import { assert } from "@tutti/units";
import type { PriorityStructure } from "./priority-structure.ts";

const NOBODY = -1;
/** A crossing that rounding puts at the current x or before it comes just after. */
const JUST_AFTER = 1 + 1e-15;

export class KineticTournament implements PriorityStructure {
  /** Leaves; a power of two. Node 1 is the root, leaf of slot s is node #leaves + s. */
  #leaves = 16;
  #winners = new Int32Array(32).fill(NOBODY);
  #until = new Float64Array(32).fill(Infinity);
  #alpha = new Float64Array(16);
  #beta = new Float64Array(16);
  #deadlines = new Float64Array(16);
  #orders = new Float64Array(16);
  #size = 0;
  #x = 0;
  #isStale = false;

  get size(): number {
    return this.#size;
  }

  insert(slot: number, alpha: number, beta: number, deadline: number, order: number): void {
    if (slot >= this.#leaves) this.#grow(slot + 1);
    const leaf = this.#leaves + slot;
    assert(this.#winners[leaf] === NOBODY, "the slot is in already");
    this.#size++;
    this.#winners[leaf] = slot;
    this.#alpha[slot] = alpha;
    this.#beta[slot] = beta;
    this.#deadlines[slot] = deadline;
    this.#orders[slot] = order;
    this.#replay(leaf);
  }
  remove(slot: number): void {
    const leaf = this.#leaves + slot;
    if (slot >= this.#leaves || this.#winners[leaf] === NOBODY) return;
    this.#size--;
    this.#winners[leaf] = NOBODY;
    this.#replay(leaf);
  }
  update(slot: number, alpha: number, beta: number): void {
    const leaf = this.#leaves + slot;
    assert(slot < this.#leaves && this.#winners[leaf] === slot, "the slot is not in");
    this.#alpha[slot] = alpha;
    this.#beta[slot] = beta;
    this.#replay(leaf);
  }

  popBest(x: number, count: number, out: number[]): number {
    this.#advance(x);
    let taken = 0;
    for (; taken < count && this.#size > 0; taken++) {
      const best = this.#winners[1]!;
      out[taken] = best;
      this.remove(best);
    }
    return taken;
  }
  rebase(): void {
    // Winners are of the old x: the next pop plays all matches again, after every line was updated.
    this.#isStale = true;
  }

  #advance(x: number): void {
    if (this.#isStale) {
      this.#isStale = false;
      this.#x = x;
      for (let node = this.#leaves - 1; node > 0; node--) this.#play(node);
      return;
    }
    assert(x >= this.#x, "P2: x fell");
    this.#x = x;
    if (this.#until[1]! <= x) this.#playDue(1);
  }
  /** Children before parents, and only where a crossing is due. */
  #playDue(node: number): void {
    if (node >= this.#leaves) return;
    if (this.#until[2 * node]! <= this.#x) this.#playDue(2 * node);
    if (this.#until[2 * node + 1]! <= this.#x) this.#playDue(2 * node + 1);
    this.#play(node);
  }
  /** All matches on the way from a leaf to the root. */
  #replay(leaf: number): void {
    if (this.#isStale) return;
    for (let node = leaf >> 1; node > 0; node >>= 1) this.#play(node);
  }

  #play(node: number): void {
    const left = 2 * node;
    const a = this.#winners[left]!;
    const b = this.#winners[left + 1]!;
    const leftUntil = this.#until[left]!;
    const rightUntil = this.#until[left + 1]!;
    let until = leftUntil < rightUntil ? leftUntil : rightUntil;
    let winner = a;
    if (a === NOBODY) winner = b;
    else if (b !== NOBODY) {
      const x = this.#x;
      const alphaA = this.#alpha[a]!;
      const alphaB = this.#alpha[b]!;
      const valueA = alphaA * x + this.#beta[a]!;
      const valueB = alphaB * x + this.#beta[b]!;
      const isA = valueA > valueB || (valueA === valueB && this.#isEarlier(a, b));
      const gain = isA ? alphaB - alphaA : alphaA - alphaB;
      winner = isA ? a : b;
      if (gain > 0) {
        const crossing = (isA ? this.#beta[a]! - this.#beta[b]! : this.#beta[b]! - this.#beta[a]!) / gain;
        const at = crossing <= x ? x * JUST_AFTER : crossing;
        if (at < until) until = at;
      }
    }
    this.#winners[node] = winner;
    this.#until[node] = until;
  }

  #isEarlier(a: number, b: number): boolean {
    const [first, second] = [this.#deadlines[a]!, this.#deadlines[b]!];
    return first < second || (first === second && this.#orders[a]! < this.#orders[b]!);
  }
  #grow(slots: number): void {
    let leaves = this.#leaves;
    while (leaves < slots) leaves *= 2;
    const widened = (from: Float64Array) => {
      const to = new Float64Array(leaves);
      to.set(from);
      return to;
    };
    const winners = new Int32Array(2 * leaves).fill(NOBODY);
    winners.set(this.#winners.subarray(this.#leaves), leaves);
    this.#winners = winners;
    this.#until = new Float64Array(2 * leaves).fill(Infinity);
    this.#alpha = widened(this.#alpha);
    this.#beta = widened(this.#beta);
    this.#deadlines = widened(this.#deadlines);
    this.#orders = widened(this.#orders);
    this.#leaves = leaves;
    for (let node = leaves - 1; node > 0; node--) this.#play(node);
  }
}
