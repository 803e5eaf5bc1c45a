import type { Tensor } from "@tutti/protocol";
import { type Micros, micros, seconds } from "@tutti/units";
import { since } from "./load-refusal.ts";

/** Time within which the checks of a load begin runs, so that they end within its deadline (watched-engine.ts). */
const CHECKS_BUDGET = seconds(8);

export type Run = (inputs: readonly Tensor[], batchSize: number) => Promise<readonly Tensor[]>;

/**
 * Bounds the time of all checks of a load together. A run can't be cancelled, so that slow rows are only found by it;
 * once the budget is spent, further runs fail, and checks don't judge by a run that fails.
 */
export class CheckBudget {
  #spent: Micros = micros(0);

  bound(run: Run): Run {
    return async (inputs, batchSize) => {
      if (this.#spent >= CHECKS_BUDGET) throw new Error("the time for checks is spent");
      const start = process.hrtime.bigint();
      try {
        return await run(inputs, batchSize);
      } finally {
        this.#spent = micros(this.#spent + since(start));
      }
    };
  }
}
