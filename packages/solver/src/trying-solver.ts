/**
 * Tries every solution of a programme whose columns are all whole numbers within bounds: what other solvers are held
 * against.
 */
import { assert } from "@tutti/units";
import type { LinearProgram, Solver, SolverAnswer } from "./solver.ts";

/** Solutions that are tried; a programme of more is refused. */
const TRIED = 1e6;
const SLACK = 1e-9;

export class TryingSolver implements Solver {
  solve(program: LinearProgram): Promise<SolverAnswer> {
    return Promise.resolve(best(program));
  }
}

function best({ columns, rows }: LinearProgram): SolverAnswer {
  const solutions = columns.reduce((count, { lower, upper }) => count * (Math.floor(upper) - Math.ceil(lower) + 1), 1);
  assert(columns.every(({ isInteger }) => isInteger) && solutions <= TRIED, "more solutions than can be tried");
  const values = columns.map(({ lower }) => Math.ceil(lower));
  let answer: SolverAnswer = { status: "infeasible" };
  const place = (column: number, objective: number): void => {
    if (column < columns.length) {
      const { lower, upper, cost } = columns[column]!;
      for (let value = Math.ceil(lower); value <= upper; value++) {
        values[column] = value;
        place(column + 1, objective + cost * value);
      }
      return;
    }
    if (answer.status === "optimal" && objective >= answer.objective) return;
    const fits = rows.every(({ lower, upper, terms }) => {
      const activity = terms.reduce((sum, [of, coefficient]) => sum + coefficient * values[of]!, 0);
      return activity >= lower - SLACK && activity <= upper + SLACK;
    });
    if (fits) answer = { status: "optimal", objective, values: [...values] };
  };
  place(0, 0);
  return answer;
}
