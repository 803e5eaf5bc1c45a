import {
  BUSY_HIGH,
  type DivisionEstimate,
  type ExecutorToPlace,
  SubClusterCounter,
  neededByMemory,
} from "@tutti/planning/live";
import type { Placement, PlanReport } from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import type { Instant } from "@tutti/units";
import type { MeasuredModel } from "./measured-models.ts";

/** Busy share of a ranker from which its rate says what it can decide for: below, most of it isn't for requests. */
const TELLING = 0.2;

interface ChoiceSeen {
  /** Sub-clusters with a leader, the preferred first. */
  readonly subClusters: readonly string[];
  readonly placement: Placement | undefined;
  readonly models: readonly MeasuredModel[];
  readonly executors: readonly ExecutorToPlace[];
  /** Busy share of a sub-cluster's leader; undefined: unknown. */
  readonly busyOf: (subCluster: string) => number | undefined;
}

/**
 * The sub-clusters that the planner uses, of those that have a leader, and the rate that a ranker can decide for
 * (docs/algorithms.md, E7).
 */
export class SubClusterChoice {
  readonly #least: number;
  readonly #log: Logger;
  #counter: SubClusterCounter | undefined;
  #division: PlanReport["division"];
  /** As it was logged last. */
  #told = "";

  /** @param least - sub-clusters that are used whatever they cost */
  constructor(least: number, log: Logger) {
    this.#least = least;
    this.#log = log;
  }

  /** @returns whether it takes a window's measurements now */
  isDue(at: Instant): boolean {
    return this.#counter?.isDue(at) !== false;
  }

  /** Takes the measurements of a window. @returns whether another number is used from now on */
  hear(seen: ChoiceSeen, estimate: DivisionEstimate | undefined, at: Instant): boolean {
    const asked = seen.subClusters.length;
    const counter = this.#counterOf(seen.placement);
    const byMemory = memoryNeed(seen);
    const before = counter.usable({ asked, byMemory });
    const shares = this.used(seen).map((subCluster) => seen.busyOf(subCluster));
    const known = shares.filter((share) => share !== undefined);
    // One that doesn't tell counts as the busiest that does.
    const busiest = Math.max(...known);
    const busy = known.length === 0 ? undefined : shares.reduce<number>((sum, share) => sum + (share ?? busiest), 0);
    const { count, needed, because } = counter.hear({ asked, byMemory, busy, estimate }, at);
    this.#division = asked < 2 ? undefined : { asked, used: count, needed, because, ...estimate };
    this.#tell();
    return count !== before;
  }

  /** Sub-clusters that are used: those with models first, so that few move. */
  used({ subClusters, placement, models, executors }: Omit<ChoiceSeen, "busyOf">): readonly string[] {
    const asked = subClusters.length;
    const byMemory = memoryNeed({ models, executors });
    const count = this.#counterOf(placement).usable({ asked, byMemory });
    const served = usedBy(placement);
    const rank = (subCluster: string): number => (served.has(subCluster) ? 0 : 1);
    return subClusters.toSorted((a, b) => rank(a) - rank(b)).slice(0, count);
  }

  /** R_max of E1: requests per second that a ranker decides for while it isn't too busy; undefined: unknown. */
  rateMax({ placement, models, busyOf }: Pick<ChoiceSeen, "placement" | "models" | "busyOf">): number | undefined {
    const homes = new Map(placement?.models.map(({ number, subCluster }) => [number, subCluster]));
    let [rate, time] = [0, 0];
    for (const subCluster of new Set(homes.values())) {
      const busy = busyOf(subCluster) ?? 0;
      if (busy < TELLING) continue;
      time += busy;
      for (const model of models) if (homes.get(model.number) === subCluster) rate += model.rate;
    }
    return rate > 0 ? (BUSY_HIGH * rate) / time : undefined;
  }

  get division(): PlanReport["division"] {
    return this.#division;
  }

  #counterOf(placement: Placement | undefined): SubClusterCounter {
    return (this.#counter ??= new SubClusterCounter(usedBy(placement).size, this.#least));
  }

  #tell(): void {
    if (this.#division === undefined) return;
    const { asked, used, because } = this.#division;
    const told = `${asked} ${used} ${because}`;
    if (told === this.#told || because === "unknown") return;
    this.#told = told;
    this.#log.info({ ...this.#division }, `${used} of ${asked} sub-clusters are used: ${REASONS[because]}`);
  }
}

const REASONS: Readonly<Record<NonNullable<PlanReport["division"]>["because"], string>> = {
  demanded: "so many are demanded",
  rankers: "rankers are too busy for fewer",
  memory: "the models need their memory",
  cheap: "dividing costs little",
  costly: "to divide further would cost more than a tenth of what is carried",
  unknown: "what dividing costs isn't known yet",
};

const usedBy = (placement: Placement | undefined): ReadonlySet<string> =>
  new Set(placement?.models.map(({ subCluster, next = subCluster }) => next));

function memoryNeed({ models, executors }: Pick<ChoiceSeen, "models" | "executors">): number {
  const capacities = executors.map(({ memoryBytesMax }) => memoryBytesMax);
  if (capacities.every((bytes) => bytes === Infinity)) return 1;
  const sizes = models.map(({ memoryBytes, dynamicBytes }) => {
    return { staticMemory: memoryBytes, dynamicMemory: dynamicBytes };
  });
  return neededByMemory(sizes, capacities);
}
