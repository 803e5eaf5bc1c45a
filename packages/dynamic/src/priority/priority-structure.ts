/**
 * Requests of one queue by score, where each score is a line α·x + β in a growing x (docs/algorithms.md, B5 and B7).
 *
 *   PRIORITY-1. `popBest` takes the k lines of highest value at x; equal values by earlier deadline, then by order. The
 *               result is the same as the scan's, whatever happened before.
 *   PRIORITY-2. x only grows between two calls of `rebase`.
 */
export interface PriorityStructure {
  readonly size: number;
  /** @param slot - a small integer that is not in the structure yet. Orders are distinct. */
  insert(slot: number, alpha: number, beta: number, deadline: number, order: number): void;
  /** Removes a slot; ignores one that is not in the structure. */
  remove(slot: number): void;
  /** Changes the line of a slot that is in the structure. */
  update(slot: number, alpha: number, beta: number): void;
  /** Takes out the best slots at x, best first; at most `count`. @returns how many slots it has written to `out` */
  popBest(x: number, count: number, out: number[]): number;
  /** Announces that x may fall; the caller then updates every line. */
  rebase(): void;
}
