/**
 * `tutti plan subclusters`: each model's sub-cluster, as JSON with public field names. Rates are in requests per
 * second, memory in MB.
 */
import {
  type SubClusterPlan,
  greedyAssignment,
  imbalanceOf,
  judge,
  meansOf,
  placeModels,
  placeOnTwoLevels,
} from "@tutti/planning";
import type { SubClustersInput } from "./subclusters-input.ts";

export interface SubClustersResult {
  readonly kind: "subclusters";
  /** Every bound and the budget are kept. Otherwise the plan is the one before or, without one, the least bad. */
  readonly feasible: boolean;
  /** ΔR + w·ΔS, in requests per second; `relativeObjective` divides it by the mean rate of a sub-cluster. */
  readonly objective: number;
  readonly relativeObjective: number;
  readonly rateGap: number;
  readonly memoryGapMb: number;
  /** (largest − smallest)/mean. */
  readonly imbalance: { readonly rate: number; readonly memory: number };
  readonly rateMax: number;
  readonly memoryMaxMb: number;
  readonly moved: number;
  readonly moveCost: number;
  /** Null: unbounded, or there was no plan before. */
  readonly budget: number | null;
  /** Value of greedy placement, which ignores the plan before. */
  readonly greedy: Worth;
  /** Value of the plan before, if there was one. */
  readonly before?: Worth;
  readonly subClusters: readonly {
    readonly subCluster: number;
    /** Set if there are several clusters. */
    readonly cluster?: number;
    readonly rate: number;
    readonly staticMb: number;
    /** The largest among its models. */
    readonly dynamicMb: number;
    readonly models: readonly string[];
  }[];
  readonly models: readonly {
    readonly model: string;
    readonly subCluster: number;
    readonly rate: number;
    readonly staticMb: number;
    /** Set if there was a plan before. */
    readonly was?: number;
  }[];
}

interface Worth {
  readonly feasible: boolean;
  readonly objective: number;
}

export interface SubClustersRun {
  readonly result: SubClustersResult;
  readonly plan: SubClusterPlan;
}

export function runSubClusters(input: SubClustersInput): SubClustersRun {
  const { names, problem, levels } = input;
  const { models, clusters, disruption } = problem;
  const plan = searched(input);
  const costMax = disruption?.costMax ?? Infinity;
  const before = disruption === undefined ? undefined : judge(problem, disruption.previous);
  const members = (j: number): number[] => [...models.keys()].filter((i) => plan.clusters[i] === j);
  const total = (of: readonly number[], value: (i: number) => number): number =>
    of.reduce((sum, i) => sum + value(i), 0);
  const result: SubClustersResult = {
    kind: "subclusters",
    feasible: plan.feasible,
    objective: plan.objective,
    relativeObjective: plan.objective / meansOf(problem).rate,
    rateGap: plan.rateGap,
    memoryGapMb: plan.memoryGap,
    imbalance: imbalanceOf(problem, plan.clusters),
    ...{ rateMax: problem.rateMax, memoryMaxMb: problem.memoryMax, moved: plan.moved, moveCost: plan.moveCost },
    budget: Number.isFinite(costMax) ? costMax : null,
    greedy: worth(judge(problem, greedyAssignment(problem))),
    ...(before !== undefined && { before: worth(before) }),
    subClusters: Array.from({ length: clusters }, (_, j) => {
      const own = members(j);
      return {
        subCluster: j,
        ...(levels !== undefined && { cluster: Math.floor(j / levels.subClusters) }),
        rate: total(own, (i) => models[i]!.rate),
        staticMb: total(own, (i) => models[i]!.staticMemory),
        dynamicMb: own.reduce((most, i) => Math.max(most, models[i]!.dynamicMemory), 0),
        models: own.map((i) => names[i]!),
      };
    }),
    models: models.map(({ rate, staticMemory }, i) => ({
      ...{ model: names[i]!, subCluster: plan.clusters[i]!, rate, staticMb: staticMemory },
      ...(disruption !== undefined && { was: disruption.previous[i]! }),
    })),
  };
  return { result, plan };
}

function searched({ problem, levels, search }: SubClustersInput): SubClusterPlan {
  const { seed, seconds, proposals = Number.MAX_SAFE_INTEGER } = search;
  const start = performance.now();
  const isOver = (share = 1): boolean => seconds !== undefined && performance.now() >= start + 1000 * seconds * share;
  if (levels !== undefined) return placeOnTwoLevels(levels, { seed, proposals, isOver });
  return placeModels(problem, { seed, proposals, isOver });
}

const worth = ({ feasible, objective }: SubClusterPlan): Worth => ({ feasible, objective });
