import type { ModelSpec, Tensor } from "@tutti/protocol";
import { type Micros, formatDuration, micros, seconds } from "@tutti/units";
import { since } from "./load-refusal.ts";

/** Time within which the checks of a load begin runs, so that they end within its deadline (watched-engine.ts). */
const CHECKS_BUDGET = seconds(8);
/**
 * SLOs that a row may take beyond that. A slower one would outlast the deadline of a first run, which is longer, and
 * end its executor.
 */
const ROW_SLOS = 4;

export type Run = (inputs: readonly Tensor[], batchSize: number) => Promise<readonly Tensor[]>;

/**
 * Bounds the time of all checks of a load together. A run can't be cancelled, so that slow rows are only found by it;
 * once the budget is spent, further runs fail, and checks don't judge by a run that fails.
 */
export class CheckBudget {
  #spent: Micros = micros(0);
  #slowestRow: Micros = micros(0);

  get spent(): Micros {
    return this.#spent;
  }

  bound(run: Run): Run {
    return async (inputs, batchSize) => {
      if (this.#spent >= CHECKS_BUDGET) throw new Error("the time for checks is spent");
      const start = process.hrtime.bigint();
      try {
        return await run(inputs, batchSize);
      } finally {
        const took = since(start);
        this.#spent = micros(this.#spent + took);
        if (batchSize === 1 && took > this.#slowestRow) this.#slowestRow = took;
      }
    };
  }

  /** Why the model can't be measured, let alone served, under its SLO; undefined: no row took that long. */
  slownessUnder({ slo }: Pick<ModelSpec, "slo">): string | undefined {
    if (this.#slowestRow <= CHECKS_BUDGET + ROW_SLOS * slo) return undefined;
    const took = formatDuration(this.#slowestRow);
    return `a run of one row took ${took}, which its SLO of ${formatDuration(slo)} does not allow: load it with a larger SLO, or make it faster`;
  }
}
