import type { ModelSpec, Tensor } from "@tutti/protocol";
import { type Micros, formatDuration, micros, seconds } from "@tutti/units";
import { since } from "./load-refusal.ts";

/** Time within which the checks of a load begin runs, so that they end within its deadline (watched-engine.ts). */
const CHECKS_BUDGET = seconds(8);
/** A slower row would outlast the deadline of a first run (watched-engine.ts) by 2 s, and end its executor. */
const slowestRowUnder = (slo: Micros): number =>
  Math.min(CHECKS_BUDGET + 4 * slo, Math.max(seconds(28), 2 * slo - seconds(2)));

export type Run = (inputs: readonly Tensor[], batchSize: number) => Promise<readonly Tensor[]>;

/**
 * Bounds the time of all checks of a load together. A run can't be cancelled, so that slow rows are only found by it;
 * once the budget is spent, further runs fail, and checks don't judge by a run that fails.
 */
export class CheckBudget {
  #spent: Micros = micros(0);
  #slowestRow: Micros = micros(0);

  /** Longest run of one row. Time in which the host ran others, or stopped this process, isn't the row's. */
  get slowestRow(): Micros {
    return this.#slowestRow;
  }

  bound(run: Run): Run {
    return async (inputs, batchSize) => {
      if (this.#spent >= CHECKS_BUDGET) throw new Error("the time for checks is spent");
      const start = process.hrtime.bigint();
      const before = process.cpuUsage();
      try {
        return await run(inputs, batchSize);
      } finally {
        const took = since(start);
        this.#spent = micros(this.#spent + took);
        const { user, system } = process.cpuUsage(before);
        if (batchSize === 1) this.#slowestRow = micros(Math.max(this.#slowestRow, Math.min(took, user + system)));
      }
    };
  }

  /** Why the model can't be measured, let alone served, under its SLO; undefined: no row took that long. */
  slownessUnder({ slo, runDeadline }: Pick<ModelSpec, "slo" | "runDeadline">): string | undefined {
    if (runDeadline !== undefined || this.#slowestRow <= slowestRowUnder(slo)) return undefined;
    const took = formatDuration(this.#slowestRow);
    return `a run of one row took ${took}, which its SLO of ${formatDuration(slo)} does not allow: load it with a larger SLO, or make it faster`;
  }
}
