/** How many executors the next period has (gpulet, algorithm 2; docs/algorithms.md, D4). */
import { assert } from "@tutti/units";
import type { Parts } from "./gpulet.ts";
import type { FractionModel } from "./model.ts";
import { type Partition, type PartitionOptions, partitionPortfolio } from "./partition.ts";

export interface ScalingLoopOptions extends Omit<PartitionOptions, "executors" | "splits"> {
  readonly executorsMax: number;
}

export interface ScalingStep {
  /** Undefined until a first period could be planned. */
  readonly plan: Partition | undefined;
  /** Used by the plan. */
  readonly executors: number;
  /** Not even all executors suffice: the plan is the one before. */
  readonly isOverloaded: boolean;
}

/** So many smaller results in a row before executors are given back. */
const SMALLER_IN_A_ROW = 2;

export class ScalingLoop {
  readonly #options: ScalingLoopOptions;
  #plan: Partition | undefined;
  #used = 0;
  #smaller = 0;

  constructor(options: ScalingLoopOptions) {
    assert(options.executorsMax >= 1, "a loop over no executors");
    this.#options = options;
  }

  /** One period with these rates. */
  step(models: readonly FractionModel[]): ScalingStep {
    const { executorsMax, ...options } = this.#options;
    for (let executors = Math.max(1, this.#used); executors <= executorsMax; executors++) {
      const found = partitionPortfolio(models, { ...options, executors });
      if (found === undefined) continue;
      this.#take(found);
      return { plan: this.#plan, executors: this.#used, isOverloaded: false };
    }
    this.#smaller = 0;
    return { plan: this.#plan, executors: this.#used, isOverloaded: true };
  }

  #take(found: Partition): void {
    const used = usedOf(found);
    this.#smaller = used < this.#used ? this.#smaller + 1 : 0;
    this.#plan = found;
    if (used >= this.#used || this.#smaller >= SMALLER_IN_A_ROW) {
      this.#used = used;
      this.#smaller = 0;
    }
  }
}

/** Partitioning prefers low ids, so what is unused comes last. */
export const usedOf = ({ executors }: Partition): number => executors.filter(isUsed).length;

const isUsed = (parts: Parts): boolean => parts.some(({ plan }) => plan !== undefined);
