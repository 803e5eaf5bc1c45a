/**
 * Requests of one queue by score, where each score is a line α·x + β in a growing x (docs/algorithms.md, B5 and B7).
 *
 *   P1. `popBest` takes the k lines of highest value at x; equal values by earlier deadline, then by order. It is what
 *       the scan takes, whatever happened before.
 *   P2. x only grows between two calls of `rebase`.
 */
export interface PriorityStructure {
  readonly size: number;
  /** @param slot - small and whole; not in yet. Orders are distinct. */
  insert(slot: number, alpha: number, beta: number, deadline: number, order: number): void;
  /** A slot that is not in is ignored. */
  remove(slot: number): void;
  /** Of a slot that is in. */
  update(slot: number, alpha: number, beta: number): void;
  /** Takes out the best at x, best first; at most `count`. @returns how many slots it has written to `out` */
  popBest(x: number, count: number, out: number[]): number;
  /** x may fall: every line is about to be updated. */
  rebase(): void;
}
