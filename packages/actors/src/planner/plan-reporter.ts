import type { PlacementPlan } from "@tutti/planning/live";
import {
  type ExecutorInventory,
  MEMORY_UNBOUNDED,
  type PlanReport,
  REPORTED_MAX,
  type ScalingAdvised,
} from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import { expectedCapacity } from "./expected-capacity.ts";
import type { MeasuredModel } from "./measured-models.ts";

/** Bound of the reasons kept: the last one of each model and accelerator, and of those the newest. */
const REASONS_KEPT = 256;

/** Reasons for the placement of models and accelerators, each recorded once, when it takes effect. */
export class ReasonLog {
  readonly #reasons = new Map<string, PlanReport["reasons"][number]>();

  note({ reasons }: Pick<PlacementPlan, "reasons">, at: Instant): void {
    for (const { about, text } of reasons) {
      // A reason that still holds was recorded when it began.
      if (this.#reasons.get(about)?.text === text) continue;
      this.#reasons.delete(about);
      this.#reasons.set(about, { at, about, text: text.slice(0, 1_000) });
    }
    for (const oldest of this.#reasons.keys()) {
      if (this.#reasons.size <= REASONS_KEPT) break;
      this.#reasons.delete(oldest);
    }
  }

  list(): PlanReport["reasons"] {
    return [...this.#reasons.values()];
  }
}

export function reportOf(seen: {
  readonly at: Instant;
  readonly epoch: number;
  readonly plan: PlacementPlan;
  readonly models: readonly MeasuredModel[];
  readonly inventories: Iterable<ExecutorInventory>;
  readonly reasons: ReasonLog;
  readonly advised: ScalingAdvised | undefined;
  readonly dispersionOf: (number: number) => number | undefined;
}): PlanReport {
  const { at, epoch, plan, models, inventories, reasons, advised, dispersionOf } = seen;
  const leftOut = new Map(
    plan.reasons.filter(({ text }) => text.startsWith("is left out")).map((one) => [one.about, one.text]),
  );
  const capacity = expectedCapacity(models, plan, dispersionOf);
  return {
    at,
    epoch,
    subClusters: plan.loads
      .slice(0, REPORTED_MAX)
      .map(({ models: _, ...load }) => ({ ...load, ...capacity.bySubCluster.get(load.subCluster) })),
    ...(capacity.undividedRps !== undefined && { undividedRps: capacity.undividedRps }),
    models: models
      .toSorted((a, b) => b.work - a.work || a.number - b.number)
      .slice(0, REPORTED_MAX)
      .map(({ number, name, rate, work, memoryBytes }) => {
        const dispersion = dispersionOf(number);
        return { number, name, rate, work, memoryBytes, ...(dispersion !== undefined && { dispersion }) };
      }),
    executors: [...inventories].slice(0, REPORTED_MAX).map((one) => ({
      gpus: one.gpus,
      subCluster: one.subCluster,
      memoryBytes: one.memoryBytes,
      ...(one.memoryBytesMax < MEMORY_UNBOUNDED && { memoryBytesMax: one.memoryBytesMax }),
      models: one.models.length,
    })),
    waiting: plan.waiting.slice(0, REPORTED_MAX).map(({ number, to }) => ({ number, to })),
    leftOut: plan.leftOut
      .slice(0, REPORTED_MAX)
      .map(({ number, name }) => ({ number, text: leftOut.get(name) ?? "is left out" })),
    reasons: reasons.list(),
    advice: {
      gpus: advised?.gpus ?? 0,
      advice: advised?.advice ?? 0,
      badRate: advised?.badRate ?? 0,
      idleShare: advised?.idleShare ?? 0,
    },
  };
}
