import {
  type DivisionEstimate,
  type PlacementPlan,
  dealtInProportion,
  placeModels,
  worksOf,
  typedCapacity,
} from "@tutti/planning/live";
import type { ExecutorInventory, PlanReport } from "@tutti/protocol";
import type { MeasuredModel, MeasuredShare } from "./measured-models.ts";

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

type TypedExecutor = Pick<ExecutorInventory, "gpus" | "type" | "subCluster">;

/**
 * The rates that accelerators are expected to carry of the measured models at their present shares (docs/algorithms.md,
 * D9). Models that nobody asks for don't count.
 */
export class CapacityEstimate {
  readonly #dispersionOf: (number: number) => number | undefined;
  readonly #asked: readonly MeasuredModel[];
  readonly #isTooMuch: boolean;
  readonly #executors: readonly TypedExecutor[];

  constructor(
    models: readonly MeasuredModel[],
    dispersionOf: (number: number) => number | undefined,
    executors: readonly TypedExecutor[],
  ) {
    this.#dispersionOf = dispersionOf;
    this.#executors = executors;
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
    const inOf = (subCluster: string): readonly TypedExecutor[] =>
      this.#executors.filter((one) => one.subCluster === subCluster);
    const bySubCluster = new Map(
      loads.map(({ subCluster, gpus, own }) => [subCluster, this.#of(own, gpus, inOf(subCluster))]),
    );
    const used = loads.filter(({ own }) => own.length > 0);
    const gpus = used.reduce((sum, load) => sum + load.gpus, 0);
    const all = used.flatMap(({ own }) => own);
    return {
      bySubCluster,
      undividedRps:
        used.length > 1
          ? this.#of(
              all,
              gpus,
              used.flatMap(({ subCluster }) => inOf(subCluster)),
            ).carriedRps
          : undefined,
    };
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
    const worked = worksOf(asked);
    const models = asked.map(({ rate, memoryBytes, dynamicBytes }, i) => {
      return { rate, work: worked[i]!, staticMemory: memoryBytes, dynamicMemory: dynamicBytes };
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

  /** @param executors - whose types are in the mix that is looked at */
  #of(own: readonly MeasuredModel[], gpus: number, executors = this.#executors): ReportedCapacity {
    const types = typesOf(own, executors, gpus);
    const names = [...types.keys()];
    const pool = own.flatMap((model) => {
      const dispersion = this.#dispersionOf(model.number) ?? 1;
      return model.shares.map(({ share, slo, ...of }) => {
        return { share, slo, dispersion, name: model.name, profiles: names.map((type) => profileOn(type, of)) };
      });
    });
    if (pool.length === 0 || gpus === 0) return {};
    const { carried, waits } = typedCapacity(pool, [...types.values()]);
    return { carriedRps: 1e6 * carried, ...(waits !== undefined && { waits: pool[waits]!.name }) };
  }
}

/**
 * Numbers of accelerators by type, in proportion to the executors that were heard: a plan may count others. One type
 * where the models' latencies were not measured apart.
 */
function typesOf(
  models: readonly MeasuredModel[],
  executors: readonly TypedExecutor[],
  gpus: number,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { type, gpus: own } of executors) counts.set(type, (counts.get(type) ?? 0) + own.length);
  const isApart = models.some(({ shares }) => shares.some(({ byType }) => byType !== undefined));
  if (counts.size < 2 || !isApart) return new Map([["", gpus]]);
  const heard = [...counts.values()].reduce((sum, count) => sum + count, 0);
  // Not rounded: a type of few accelerators would vanish.
  return new Map([...counts].map(([type, count]) => [type, (count * gpus) / heard]));
}

/** A type that isn't known is planned like the pool. */
const profileOn = (type: string, { byType, profile }: Pick<MeasuredShare, "byType" | "profile">) =>
  byType?.has(type) === true ? byType.get(type) : profile;
