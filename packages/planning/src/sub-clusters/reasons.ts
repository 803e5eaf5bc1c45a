/** Why a model is in its sub-cluster: what a plan would be worth if it alone were elsewhere. */
import { type SubClusterPlan, type SubClusterProblem, judge, meansOf } from "./problem.ts";

export interface Elsewhere {
  readonly cluster: number;
  /** The plan with this one model there. */
  readonly plan: SubClusterPlan;
}

/** @returns the same plan but for one model; E1 judges it, so a budget that it exceeds makes it infeasible */
export function withModelAt(
  problem: SubClusterProblem,
  plan: SubClusterPlan,
  model: number,
  cluster: number,
): Elsewhere {
  const clusters = Int32Array.from(plan.clusters);
  clusters[model] = cluster;
  return { cluster, plan: judge(problem, clusters) };
}

/** The best other cluster for one model, feasible ones first; undefined where there is but one. */
export function nextBest(problem: SubClusterProblem, plan: SubClusterPlan, model: number): Elsewhere | undefined {
  const { rate: rateMean, memory: memoryMean, weight } = meansOf(problem);
  const own = problem.models[model]!;
  const here = plan.clusters[model]!;
  const rates = new Float64Array(problem.clusters);
  const memories = new Float64Array(problem.clusters);
  for (const [i, { rate, staticMemory }] of problem.models.entries()) {
    rates[plan.clusters[i]!]! += rate;
    memories[plan.clusters[i]!]! += staticMemory;
  }
  const objectiveAt = (there: number): number => {
    let [rateGap, memoryGap] = [0, 0];
    for (let j = 0; j < problem.clusters; j++) {
      const sign = j === there ? 1 : j === here ? -1 : 0;
      rateGap = Math.max(rateGap, Math.abs(rates[j]! + sign * own.rate - rateMean));
      memoryGap = Math.max(memoryGap, Math.abs(memories[j]! + sign * own.staticMemory - memoryMean));
    }
    return rateGap + weight * memoryGap;
  };
  // Bounds cost a look at all models: from the best objective on, until one keeps them.
  const others = Array.from({ length: problem.clusters }, (_, cluster) => ({
    cluster,
    objective: objectiveAt(cluster),
  }))
    .filter(({ cluster }) => cluster !== here)
    .sort((a, b) => a.objective - b.objective || a.cluster - b.cluster);
  let first: Elsewhere | undefined;
  for (const { cluster } of others) {
    const other = withModelAt(problem, plan, model, cluster);
    if (other.plan.feasible) return other;
    first ??= other;
  }
  return first;
}
