/**
 * The port of exact solvers of mixed-integer linear programmes: nothing at run time needs one, so it answers whenever
 * it has finished.
 */

/** Minimise Σ cost·x, where each row's Σ coefficient·x lies between its bounds. Infinity: no bound. */
export interface LinearProgram {
  readonly columns: readonly {
    readonly cost: number;
    readonly lower: number;
    readonly upper: number;
    readonly isInteger: boolean;
  }[];
  readonly rows: readonly {
    readonly lower: number;
    readonly upper: number;
    /** Pairs of a column and its coefficient; a column at most once. */
    readonly terms: readonly (readonly [column: number, coefficient: number])[];
  }[];
}

export type SolverAnswer =
  /**
   * No better solution exists. Whether it keeps the bounds is up to whoever asked to check: solvers have tolerances.
   */
  | { readonly status: "optimal"; readonly objective: number; readonly values: readonly number[] }
  /** Time was over. The best solution so far, where there is one. */
  | { readonly status: "stopped"; readonly objective?: number; readonly values?: readonly number[] }
  | { readonly status: "infeasible" };

export interface Solver {
  /** @throws what the solver says of a programme that it can't take, such as one without end */
  solve(program: LinearProgram, options: { readonly secondsMax: number }): Promise<SolverAnswer>;
}
