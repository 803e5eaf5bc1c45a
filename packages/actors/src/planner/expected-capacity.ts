import {
  type DivisionEstimate,
  type PlacementPlan,
  type PooledModel,
  dealtInProportion,
  placeModels,
  poolCapacity,
} from "@tutti/planning/live";
import type { PlanReport } from "@tutti/protocol";
import type { MeasuredModel } from "./measured-models.ts";

/** Bound of the models' buckets whose capacity is computed: more would hold up the messages of its process. */
const POOLED_MAX = 256;
/** Proposals of a division that is only estimated. */
const PROPOSALS = 20_000;

type ReportedCapacity = Pick<PlanReport["subClusters"][number], "carriedRps" | "waits">;

export interface ExpectedCapacity {
  readonly bySubCluster: ReadonlyMap<string, ReportedCapacity>;
  /** Rate that all accelerators would carry as one sub-cluster; undefined: they are one. */
  readonly undividedRps: number | undefined;
}

/**
 * The rates that accelerators are expected to carry of the measured models at their present shares (docs/algorithms.md,
 * D9). Models that nobody asks for don't count.
 */
export class CapacityEstimate {
  readonly #dispersionOf: (number: number) => number | undefined;
  readonly #asked: readonly MeasuredModel[];
  readonly #isTooMuch: boolean;

  constructor(models: readonly MeasuredModel[], dispersionOf: (number: number) => number | undefined) {
    this.#dispersionOf = dispersionOf;
    this.#asked = models.filter(({ rate }) => rate > 0);
    this.#isTooMuch = this.#asked.reduce((sum, { shares }) => sum + shares.length, 0) > POOLED_MAX;
  }

  /** Rates that each sub-cluster carries of the mix that it serves now, and all accelerators of the whole mix. */
  ofPlan(plan: Pick<PlacementPlan, "models" | "loads">): ExpectedCapacity {
    if (this.#isTooMuch) return { bySubCluster: new Map(), undividedRps: undefined };
    const placeOf = new Map(plan.models.map(({ number, subCluster }) => [number, subCluster]));
    const loads = plan.loads.map(({ subCluster, gpus }) => {
      return { subCluster, gpus, own: this.#asked.filter(({ number }) => placeOf.get(number) === subCluster) };
    });
    const bySubCluster = new Map(loads.map(({ subCluster, gpus, own }) => [subCluster, this.#of(own, gpus)]));
    const used = loads.filter(({ own }) => own.length > 0);
    const gpus = used.reduce((sum, load) => sum + load.gpus, 0);
    const all = used.flatMap(({ own }) => own);
    return { bySubCluster, undividedRps: used.length > 1 ? this.#of(all, gpus).carriedRps : undefined };
  }

  /** Rate at which some of the models are carried together; undefined: unknown. */
  ofModels(numbers: readonly number[], gpus: number): number | undefined {
    if (this.#isTooMuch) return undefined;
    const own = new Set(numbers);
    return this.#of(
      this.#asked.filter(({ number }) => own.has(number)),
      gpus,
    ).carriedRps;
  }

  /**
   * Rate that all accelerators carry in so many sub-clusters, with models as even and accelerators in proportion to the
   * work as the planner places them: the one that is fullest limits the others.
   */
  ofDivision(count: number, gpus: number, seed: number): DivisionEstimate | undefined {
    const asked = this.#asked;
    const clusters = Math.min(count, asked.length, gpus);
    if (this.#isTooMuch || clusters === 0) return undefined;
    const undividedRps = this.#of(asked, gpus).carriedRps;
    if (undividedRps === undefined) return undefined;
    const models = asked.map(({ rate, memoryBytes, dynamicBytes }) => {
      return { rate, staticMemory: memoryBytes, dynamicMemory: dynamicBytes };
    });
    const problem = { models, clusters, rateMax: Infinity, memoryMax: Infinity };
    const places = placeModels(problem, { seed, proposals: PROPOSALS, enumerateMax: PROPOSALS }).clusters;
    const works = new Float64Array(clusters);
    for (const [i, { work }] of asked.entries()) works[places[i]!]! += work;
    const all = asked.reduce((sum, { rate }) => sum + rate, 0);
    const dividedRps = dealtInProportion(gpus, works).map((own, cluster) => {
      const there = asked.filter((_, i) => places[i] === cluster);
      const rate = there.reduce((sum, one) => sum + one.rate, 0);
      return rate === 0 ? Infinity : (all * (this.#of(there, own).carriedRps ?? 0)) / rate;
    });
    return { dividedRps: Math.min(...dividedRps), undividedRps };
  }

  #of(own: readonly MeasuredModel[], gpus: number): ReportedCapacity {
    const pool = own.flatMap((model) => {
      const dispersion = this.#dispersionOf(model.number) ?? 1;
      return model.shares.map((share): PooledModel & { name: string } => ({ ...share, dispersion, name: model.name }));
    });
    if (pool.length === 0 || gpus === 0) return {};
    const { carried, waits } = poolCapacity(pool, gpus);
    return { carriedRps: 1e6 * carried, ...(waits !== undefined && { waits: pool[waits]!.name }) };
  }
}
