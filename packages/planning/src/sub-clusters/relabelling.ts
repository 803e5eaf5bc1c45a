/**
 * Renames new clusters, so that as much as possible stays where it is: a maximum-weight assignment (Kuhn and Munkres,
 * with potentials, O(l³)). docs/algorithms.md, E2.
 */
import type { SubClusterProblem } from "./problem.ts";

/** The same plan, with the names of clusters that keep the most of the previous plan, by move cost. */
export function relabelled(problem: SubClusterProblem, clusters: ArrayLike<number>): Int32Array {
  const { disruption } = problem;
  if (disruption === undefined) return Int32Array.from(clusters);
  const count = problem.clusters;
  /** Negated move cost of the models that stay if new cluster j is called k: the assignment minimises the cost. */
  const costs = Array.from({ length: count }, () => new Float64Array(count));
  for (let i = 0; i < problem.models.length; i++) {
    const before = disruption.previous[i]!;
    if (before >= 0) costs[clusters[i]!]![before]! -= disruption.moveCost[i]! + 1e-9; // of equal costs fewer models
  }
  const names = leastCostAssignment(costs);
  return Int32Array.from({ length: problem.models.length }, (_, i) => names[clusters[i]!]!);
}

/** @returns the column of each row */
export function leastCostAssignment(costs: readonly ArrayLike<number>[]): number[] {
  const size = costs.length;
  const rowPotential = new Float64Array(size + 1);
  const columnPotential = new Float64Array(size + 1);
  /** Row that each column is assigned to, from 1; 0: free. */
  const rowOf = new Int32Array(size + 1);
  for (let row = 1; row <= size; row++) {
    const slack = new Float64Array(size + 1).fill(Infinity);
    const from = new Int32Array(size + 1);
    const visited = new Uint8Array(size + 1);
    let column = 0;
    rowOf[0] = row;
    do {
      visited[column] = 1;
      const current = rowOf[column]!;
      let [least, next] = [Infinity, 0];
      for (let j = 1; j <= size; j++) {
        if (visited[j] === 1) continue;
        const reduced = costs[current - 1]![j - 1]! - rowPotential[current]! - columnPotential[j]!;
        if (reduced < slack[j]!) {
          slack[j] = reduced;
          from[j] = column;
        }
        if (slack[j]! < least) [least, next] = [slack[j]!, j];
      }
      for (let j = 0; j <= size; j++) {
        if (visited[j] === 1) {
          rowPotential[rowOf[j]!]! += least;
          columnPotential[j]! -= least;
        } else slack[j]! -= least;
      }
      column = next;
    } while (rowOf[column] !== 0);
    for (; column !== 0; column = from[column]!) rowOf[column] = rowOf[from[column]!]!;
  }
  const columns = new Array<number>(size);
  for (let j = 1; j <= size; j++) columns[rowOf[j]! - 1] = j - 1;
  return columns;
}
