/** One programme, solved in this thread. */
import { parentPort, workerData } from "node:worker_threads";
import type { LinearProgram, SolverAnswer } from "@tutti/solver";
import loader from "highs";
import type { SolverReport, SolverRun } from "./highs-solver.ts";

// The package's types are those of CommonJS, where the default export is a property; what Node imports is an ES module.
const loadHighs = loader as unknown as typeof loader.default;

/** HiGHS' "a primal feasible point exists". */
const FEASIBLE = 2;

async function solved({ program, secondsMax }: SolverRun): Promise<SolverAnswer> {
  const highs = await loadHighs();
  const { modelStatus } = highs.constants;
  const model = highs.createModel(modelOf(program));
  try {
    // Exact is what it is here for: by default it stops at a gap of 1e-4.
    model.options.set({ output_flag: false, time_limit: secondsMax, mip_rel_gap: 0, mip_abs_gap: 1e-9 });
    model.run();
    const status = model.getModelStatus();
    if (status === modelStatus.infeasible) return { status: "infeasible" };
    if (status !== modelStatus.optimal && status !== modelStatus.timeLimit)
      throw new Error(`it ended with model status ${status}`);
    const values = [...model.getSolution().colValue];
    const objective = model.getObjectiveValue();
    if (status === modelStatus.optimal) return { status: "optimal", objective, values };
    return model.info.get("primal_solution_status") === FEASIBLE
      ? { status: "stopped", objective, values }
      : { status: "stopped" };
  } finally {
    model.dispose();
  }
}

function modelOf({ columns, rows }: LinearProgram) {
  const starts = [0];
  for (const { terms } of rows) starts.push(starts.at(-1)! + terms.length);
  return {
    numCols: columns.length,
    numRows: rows.length,
    colCost: columns.map(({ cost }) => cost),
    colLower: columns.map(({ lower }) => lower),
    colUpper: columns.map(({ upper }) => upper),
    integrality: columns.map(({ isInteger }) => (isInteger ? 1 : 0)),
    rowLower: rows.map(({ lower }) => lower),
    rowUpper: rows.map(({ upper }) => upper),
    matrix: {
      format: "csr" as const,
      ...{ numRows: rows.length, numCols: columns.length, starts },
      indices: rows.flatMap(({ terms }) => terms.map(([column]) => column)),
      values: rows.flatMap(({ terms }) => terms.map(([, coefficient]) => coefficient)),
    },
  } as const;
}

const report = (answer: SolverReport): void => parentPort!.postMessage(answer);
try {
  report({ answer: await solved(workerData as SolverRun) });
} catch (error) {
  report({ fault: error instanceof Error ? error.message : String(error) });
}
