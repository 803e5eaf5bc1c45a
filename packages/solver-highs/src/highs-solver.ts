/** HiGHS in a worker of its own: its run blocks the thread until it has finished. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { LinearProgram, Solver, SolverAnswer } from "@tutti/solver";

/** What the worker is given, and what it answers. */
export interface SolverRun {
  readonly program: LinearProgram;
  readonly secondsMax: number;
}
export type SolverReport = { readonly answer: SolverAnswer } | { readonly fault: string };

/** HiGHS keeps its time limit to some 0.4 s, and WASM wants loading; a worker that is still silent then is stuck. */
const GRACE_S = 10;

export class HighsSolver implements Solver {
  async solve(program: LinearProgram, { secondsMax }: { readonly secondsMax: number }): Promise<SolverAnswer> {
    const workerData: SolverRun = { program, secondsMax };
    const worker = new Worker(new URL("./solver-worker.ts", import.meta.url), { name: "solver", workerData });
    const deadline = AbortSignal.timeout(1000 * (secondsMax + GRACE_S));
    try {
      const [report] = (await once(worker, "message", { signal: deadline })) as [SolverReport];
      if ("fault" in report) throw new Error(`HiGHS: ${report.fault}`);
      return report.answer;
    } catch (error) {
      if (deadline.aborted) return { status: "stopped" };
      throw error;
    } finally {
      await worker.terminate();
    }
  }
}
