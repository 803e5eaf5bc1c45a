import type { PlacementPlan } from "@tutti/planning/live";
import {
  type ExecutorInventory,
  MEMORY_UNBOUNDED,
  type PlanReport,
  REPORTED_MAX,
  type ScalingAdvised,
} from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import type { CapacityEstimate } from "./expected-capacity.ts";
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
  readonly inventories: readonly ExecutorInventory[];
  readonly reasons: ReasonLog;
  readonly advised: ScalingAdvised | undefined;
  readonly dispersionOf: (number: number) => number | undefined;
  readonly estimate: CapacityEstimate;
  readonly division: PlanReport["division"];
  readonly busyOf: (subCluster: string) => number | undefined;
  /** Requests per second that a ranker can decide for. */
  readonly rateMax: number | undefined;
}): PlanReport {
  const { at, epoch, plan, models, reasons, advised, dispersionOf, division } = seen;
  const inventories = [...seen.inventories];
  const leftOut = new Map(
    plan.reasons.filter(({ text }) => text.startsWith("is left out")).map((one) => [one.about, one.text]),
  );
  const capacity = seen.estimate.ofPlan(plan);
  return {
    at,
    epoch,
    subClusters: plan.loads.slice(0, REPORTED_MAX).map(({ models: _, ...load }) => {
      const { carriedRps = Infinity } = capacity.bySubCluster.get(load.subCluster) ?? {};
      const busy = seen.busyOf(load.subCluster);
      const bounds = {
        rateMax: Math.min(carriedRps, seen.rateMax ?? Infinity),
        memoryBytesMax: smallestOf(inventories, load.subCluster),
      };
      return {
        ...{ ...load, ...capacity.bySubCluster.get(load.subCluster), ...(busy !== undefined && { busy }) },
        ...Object.fromEntries(Object.entries(bounds).filter(([, bound]) => Number.isFinite(bound))),
        binds: bindingOf(load, bounds),
      };
    }),
    ...(division !== undefined && { division }),
    ...(capacity.undividedRps !== undefined && { undividedRps: capacity.undividedRps }),
    models: models
      .toSorted((a, b) => b.work - a.work || a.number - b.number)
      .slice(0, REPORTED_MAX)
      .map(({ number, name, rate, work, memoryBytes, dynamicBytes }) => {
        const dispersion = dispersionOf(number);
        const known = { number, name, rate, work, memoryBytes, dynamicBytes };
        return { ...known, ...(dispersion !== undefined && { dispersion }) };
      }),
    executors: inventories.slice(0, REPORTED_MAX).map((one) => ({
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

/** Share of a bound from which it is said to bind. */
const BINDS_FROM = 0.9;

function bindingOf(
  { rate, memoryBytes, dynamicBytes }: Omit<PlacementPlan["loads"][number], "models">,
  { rateMax, memoryBytesMax }: { readonly rateMax: number; readonly memoryBytesMax: number },
): ("memory" | "rate")[] {
  const isMemory = memoryBytes + dynamicBytes >= BINDS_FROM * memoryBytesMax;
  return [...(isMemory ? (["memory"] as const) : []), ...(rate >= BINDS_FROM * rateMax ? (["rate"] as const) : [])];
}

/** Memory of the smallest accelerator of a sub-cluster. */
const smallestOf = (inventories: readonly ExecutorInventory[], own: string): number =>
  inventories
    .filter(({ subCluster, memoryBytesMax }) => subCluster === own && memoryBytesMax < MEMORY_UNBOUNDED)
    .reduce((least, { memoryBytesMax }) => Math.min(least, memoryBytesMax), Infinity);
