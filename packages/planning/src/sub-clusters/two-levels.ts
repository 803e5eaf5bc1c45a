/**
 * Placement on two levels, for more load than one scheduler carries. Models are assigned to clusters, each with a
 * scheduler of its own, then those of a cluster to its sub-clusters, by the same search (Symphony v1 §4.7;
 * docs/algorithms.md, E1).
 *
 *   TL1. Sub-clusters are numbered through: number n is sub-cluster n mod k of cluster ⌊n/k⌋. A plan on two levels is a
 *        plan over all of them, and judged as one.
 *   TL2. Both levels spend one budget. The first has half of it. The rest is the second level's: it is divided in
 *        proportion to the cost of moving the clusters' models, and passed on where a cluster needs less.
 *   TL3. Models that change cluster have paid already: to their new cluster they are new.
 */
import { type LocalSearchOptions, placeModels } from "./local-search.ts";
import { keptAssignment } from "./baselines.ts";
import { type SubClusterPlan, type SubClusterProblem, judge, meansOf } from "./problem.ts";

export interface TwoLevelProblem extends Omit<SubClusterProblem, "clusters"> {
  readonly clusters: number;
  /** k: sub-clusters of each cluster. */
  readonly subClusters: number;
  /** Highest rate of a cluster's scheduler. Default: k times that of a sub-cluster. */
  readonly clusterRateMax?: number;
}

export interface TwoLevelPlan extends SubClusterPlan {
  /** Plan of the first level alone; `clusters` of the plan itself are numbered through (TL1). */
  readonly first: SubClusterPlan;
}

export interface TwoLevelOptions extends Omit<LocalSearchOptions, "isOver"> {
  /** Called with the share of the whole time that may have passed by now. */
  readonly isOver?: (share: number) => boolean;
}

/** The first level's share of a bounded budget. */
const BUDGET_FIRST = 0.5;
/** The first level's share of the time. */
const TIME_FIRST = 0.3;
/** Most proposals of each search of a second attempt, which has no time left. */
const AGAIN_PROPOSALS = 200_000;

/**
 * @returns the best feasible plan found, never worse than the previous one where that is still feasible. Where a level
 *   finds no plan within its bounds and leaving every model in its cluster doesn't help: the previous plan, infeasible,
 *   with new models placed greedily; without a previous plan, the infeasible plan that was found
 */
export function placeOnTwoLevels(problem: TwoLevelProblem, options: TwoLevelOptions): TwoLevelPlan {
  const { disruption, clusters, subClusters } = problem;
  const found = [attempt(problem, placeModels(upperProblem(problem), until(options, TIME_FIRST)), options)];
  if (disruption !== undefined) {
    const flat = flatProblem(problem);
    const kept = judge(flat, keptAssignment(flat, disruption.previous));
    const upperKept = judge(
      upperProblem(problem),
      kept.clusters.map((number) => Math.floor(number / subClusters)),
    );
    found.push({ ...kept, first: upperKept, feasible: kept.feasible && upperKept.feasible });
    const again = { seed: options.seed, proposals: Math.min(options.proposals, AGAIN_PROPOSALS) };
    if (clusters > 1 && !found[0]!.feasible) found.push(attempt(problem, upperKept, again));
  }
  const feasible = found.filter((plan) => plan.feasible);
  if (feasible.length === 0) return found[1] ?? found[0]!;
  return feasible.reduce((best, plan) => (plan.objective < best.objective ? plan : best));
}

/** Solves the second level for a given first one. */
function attempt(problem: TwoLevelProblem, first: SubClusterPlan, options: TwoLevelOptions): TwoLevelPlan {
  const { models, clusters, subClusters, disruption } = problem;
  const upper = upperProblem(problem).disruption;
  const members = Array.from({ length: clusters }, (): number[] => []);
  for (const i of models.keys()) members[first.clusters[i]!]!.push(i);
  // Cost by cluster of moving all of its models that may still move.
  const costs = members.map((own, cluster) =>
    own.reduce((sum, i) => sum + (upper?.previous[i] === cluster ? upper.moveCost[i]! : 0), 0),
  );
  let left = (disruption?.costMax ?? Infinity) - first.moveCost;
  let movable = costs.reduce((sum, cost) => sum + cost, 0);
  let isFeasible = first.feasible;
  const placed = new Int32Array(models.length);
  for (const [cluster, own] of members.entries()) {
    if (own.length === 0) continue;
    const costMax = left === Infinity ? Infinity : movable === 0 ? 0 : Math.max(0, (left * costs[cluster]!) / movable);
    const end = TIME_FIRST + ((1 - TIME_FIRST) * (cluster + 1)) / clusters;
    const plan = placeModels(lowerProblem(problem, cluster, own, costMax), until(options, end));
    for (const [k, i] of own.entries()) placed[i] = cluster * subClusters + plan.clusters[k]!;
    isFeasible &&= plan.feasible;
    left -= plan.moveCost;
    movable -= costs[cluster]!;
  }
  const plan = judge(flatProblem(problem), placed);
  return { ...plan, first, feasible: isFeasible && plan.feasible };
}

const until = ({ isOver, ...options }: TwoLevelOptions, share: number): LocalSearchOptions => ({
  ...options,
  ...(isOver !== undefined && { isOver: () => isOver(share) }),
});

/** The problem with all sub-clusters on one level (TL1). */
export function flatProblem({
  clusters,
  subClusters,
  clusterRateMax: _,
  ...problem
}: TwoLevelProblem): SubClusterProblem {
  return { ...problem, clusters: clusters * subClusters };
}

function upperProblem(problem: TwoLevelProblem): SubClusterProblem {
  const { models, clusters, subClusters, rateMax, memoryMax, clusterRateMax, disruption } = problem;
  return {
    ...{ models, clusters, weight: weightOf(problem), memoryMax: subClusters * memoryMax },
    rateMax: clusterRateMax ?? subClusters * rateMax,
    ...(disruption !== undefined && {
      disruption: {
        previous: Array.from(disruption.previous, (number) => Math.floor(number / subClusters)), // −1 stays below 0
        moveCost: disruption.moveCost,
        costMax: BUDGET_FIRST * disruption.costMax,
      },
    }),
  };
}

function lowerProblem(
  problem: TwoLevelProblem,
  cluster: number,
  own: readonly number[],
  costMax: number,
): SubClusterProblem {
  const { models, subClusters, rateMax, memoryMax, disruption } = problem;
  const before = (i: number): number => {
    const number = disruption!.previous[i]!;
    return Math.floor(number / subClusters) === cluster ? number % subClusters : -1; // TL3
  };
  return {
    ...{ clusters: subClusters, weight: weightOf(problem), rateMax, memoryMax },
    models: own.map((i) => models[i]!),
    ...(disruption !== undefined && {
      disruption: { previous: own.map(before), moveCost: own.map((i) => disruption.moveCost[i]!), costMax },
    }),
  };
}

/** One weight for all levels: means differ from cluster to cluster. */
const weightOf = (problem: TwoLevelProblem): number => meansOf(flatProblem(problem)).weight;
