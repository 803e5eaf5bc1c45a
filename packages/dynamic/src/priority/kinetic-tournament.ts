/**
 * A kinetic tournament: a complete binary tree over slots. Each node holds the winner among its leaves at the current
 * x, and until which x nothing below it changes (docs/algorithms.md, B7). Changing a leaf costs O(log n); a growing x
 * recomputes only the nodes whose time has come.
 *
 *   KT1. A node's winner is the better of its children's at the current x; `until` is the least of theirs and of the x
 *        where the loser overtakes.
 *   KT2. No step allocates, except when a slot larger than any before makes the tree grow (doubling).
 *   KT3. After a leaf has changed, a node that neither has it as its winner nor changes itself ends the way up: nothing
 *        above it is other than before.
 */
import { assert } from "@tutti/units";
import type { PriorityStructure } from "./priority-structure.ts";

const NOBODY = -1;
/** Where rounding puts a crossing at the current x or before it, the crossing comes just after. */
const JUST_AFTER = 1 + 1e-15;

export class KineticTournament implements PriorityStructure {
  /** Leaves; a power of two. Node 1 is the root, leaf of slot s is node #leaves + s. */
  #leaves = 16;
  #winners = new Int32Array(32).fill(NOBODY);
  #until = new Float64Array(32).fill(Infinity);
  /** α and β of slot s at 2s and 2s + 1: a match reads both, and finds them in one line of the cache. */
  #lines = new Float64Array(32);
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
    this.#lines[2 * slot] = alpha;
    this.#lines[2 * slot + 1] = beta;
    this.#deadlines[slot] = deadline;
    this.#orders[slot] = order;
    this.#replay(slot);
  }
  remove(slot: number): void {
    const leaf = this.#leaves + slot;
    if (slot >= this.#leaves || this.#winners[leaf] === NOBODY) return;
    this.#size--;
    this.#winners[leaf] = NOBODY;
    this.#replay(slot);
  }
  update(slot: number, alpha: number, beta: number): void {
    const leaf = this.#leaves + slot;
    assert(slot < this.#leaves && this.#winners[leaf] === slot, "the slot is not in");
    this.#lines[2 * slot] = alpha;
    this.#lines[2 * slot + 1] = beta;
    this.#replay(slot);
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
    // The winners are those of the old x: the next pop plays all matches again, after every line was updated.
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
  /** Plays children before parents, and only where a crossing is due. */
  #playDue(node: number): void {
    if (node >= this.#leaves) return;
    if (this.#until[2 * node]! <= this.#x) this.#playDue(2 * node);
    if (this.#until[2 * node + 1]! <= this.#x) this.#playDue(2 * node + 1);
    this.#play(node);
  }
  /**
   * Plays the matches on the way from a slot's leaf to the root (KT3). They are most of the cost of an insertion or a
   * pop, so the current winner stays in locals.
   */
  #replay(slot: number): void {
    if (this.#isStale) return;
    const winners = this.#winners;
    const untils = this.#until;
    const lines = this.#lines;
    const x = this.#x;
    let node = this.#leaves + slot;
    let winner = winners[node]!;
    let alpha = lines[2 * slot]!;
    let beta = lines[2 * slot + 1]!;
    let until = Infinity;
    while (node > 1) {
      const sibling = node ^ 1;
      const other = winners[sibling]!;
      const otherUntil = untils[sibling]!;
      if (otherUntil < until) until = otherUntil;
      if (other !== NOBODY) {
        const otherAlpha = lines[2 * other]!;
        const otherBeta = lines[2 * other + 1]!;
        const value = alpha * x + beta;
        const otherValue = otherAlpha * x + otherBeta;
        if (winner === NOBODY) {
          winner = other;
          alpha = otherAlpha;
          beta = otherBeta;
        } else if (value > otherValue || (value === otherValue && this.#isEarlier(winner, other))) {
          until = overtakenBy(until, x, beta - otherBeta, otherAlpha - alpha);
        } else {
          until = overtakenBy(until, x, otherBeta - beta, alpha - otherAlpha);
          winner = other;
          alpha = otherAlpha;
          beta = otherBeta;
        }
      }
      node >>= 1;
      if (winner !== slot && winners[node] === winner && untils[node] === until) return;
      winners[node] = winner;
      untils[node] = until;
    }
  }

  #play(node: number): void {
    const lines = this.#lines;
    const x = this.#x;
    const left = 2 * node;
    const a = this.#winners[left]!;
    const b = this.#winners[left + 1]!;
    let until = Math.min(this.#until[left]!, this.#until[left + 1]!);
    let winner = a === NOBODY ? b : a;
    if (a !== NOBODY && b !== NOBODY) {
      const ahead = lines[2 * a + 1]! - lines[2 * b + 1]!;
      const gain = lines[2 * b]! - lines[2 * a]!;
      const valueA = lines[2 * a]! * x + lines[2 * a + 1]!;
      const valueB = lines[2 * b]! * x + lines[2 * b + 1]!;
      const isA = valueA > valueB || (valueA === valueB && this.#isEarlier(a, b));
      winner = isA ? a : b;
      until = isA ? overtakenBy(until, x, ahead, gain) : overtakenBy(until, x, -ahead, -gain);
    }
    this.#winners[node] = winner;
    this.#until[node] = until;
  }

  #isEarlier(a: number, b: number): boolean {
    const first = this.#deadlines[a]!;
    const second = this.#deadlines[b]!;
    return first < second || (first === second && this.#orders[a]! < this.#orders[b]!);
  }
  #grow(slots: number): void {
    let leaves = this.#leaves;
    while (leaves < slots) leaves *= 2;
    const widened = (from: Float64Array, length = leaves) => {
      const to = new Float64Array(length);
      to.set(from);
      return to;
    };
    const winners = new Int32Array(2 * leaves).fill(NOBODY);
    winners.set(this.#winners.subarray(this.#leaves), leaves);
    this.#winners = winners;
    this.#until = new Float64Array(2 * leaves).fill(Infinity);
    this.#lines = widened(this.#lines, 2 * leaves);
    this.#deadlines = widened(this.#deadlines);
    this.#orders = widened(this.#orders);
    this.#leaves = leaves;
    for (let node = leaves - 1; node > 0; node--) this.#play(node);
  }
}

/**
 * The sooner of `until` and the x at which a winner's lead of β is used up by the loser's larger α. One comparison
 * shows where it comes no sooner (a loser with the smaller α never catches up), and spares most matches the division.
 */
function overtakenBy(until: number, x: number, lead: number, gain: number): number {
  if (!(lead < gain * until)) return until;
  const crossing = lead / gain;
  return crossing <= x ? x * JUST_AFTER : crossing;
}
