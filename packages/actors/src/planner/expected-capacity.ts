import {
  type DivisionEstimate,
  Divisions,
  type ExecutorToPlace,
  type PlacementPlan,
  placeModels,
  worksOf,
  capacitiesFor,
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

type DividedExecutor = Pick<ExecutorToPlace, "gpus" | "memoryBytesMax">;
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

  /** The cost of `timesOf`, as a multiple of what accelerators of one type cost. */
  get cost(): number {
    return capacitiesFor(typesOf(this.#asked, this.#executors, 1).size);
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

  /**
   * How many times their present rates accelerators carry of some of the models together; undefined: unknown, or nobody
   * asks for them.
   */
  timesOf(numbers: readonly number[], gpus: number): number | undefined {
    const own = new Set(numbers);
    return this.#timesOf(
      this.#asked.filter(({ number }) => own.has(number)),
      gpus,
    );
  }

  #timesOf(models: readonly MeasuredModel[], gpus: number): number | undefined {
    const known = models.filter(({ shares }) => shares.length > 0);
    if (this.#isTooMuch || known.length === 0) return undefined;
    const carried = this.#of(known, gpus).carriedRps;
    return carried === undefined ? undefined : carried / known.reduce((sum, { rate }) => sum + rate, 0);
  }

  /**
   * Rate that all executors carry in so many sub-clusters, as the planner divides (docs/algorithms.md, E8): the one
   * that is fullest limits the others.
   */
  ofDivision(count: number, executors: readonly DividedExecutor[], seed: number): DivisionEstimate | undefined {
    const asked = this.#asked;
    const gpus = executors.reduce((sum, one) => sum + one.gpus.length, 0);
    const clusters = Math.min(count, asked.length, gpus);
    if (this.#isTooMuch || clusters === 0) return undefined;
    const undividedRps = this.#of(asked, gpus).carriedRps;
    if (undividedRps === undefined) return undefined;
    const works = worksOf(asked);
    const models = asked.map(({ rate, memoryBytes, dynamicBytes }, i) => {
      return { rate, work: works[i]!, staticMemory: memoryBytes, dynamicMemory: dynamicBytes };
    });
    const capacities = executors.map(({ memoryBytesMax }) => memoryBytesMax).sort((a, b) => b - a);
    const memoryMax = capacities[Math.min(clusters, capacities.length) - 1]!;
    const problem = { models, clusters, rateMax: Infinity, memoryMax };
    const { clusters: even } = placeModels(problem, { seed, proposals: PROPOSALS, enumerateMax: PROPOSALS });
    const timesOf = (own: readonly number[], some: number): number | undefined => {
      const models = own.map((i) => asked[i]!);
      return this.#timesOf(models, some);
    };
    const divisions = new Divisions(problem, gpus, timesOf, this.cost);
    const all = asked.reduce((sum, { rate }) => sum + rate, 0);
    return { dividedRps: all * (divisions.best(even, seed).times ?? 0), undividedRps };
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
