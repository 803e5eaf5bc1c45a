/**
 * The sub-cluster problem: assign models to sub-clusters, so that each carries the same load and keeps the same memory
 * (Symphony v2 §4.4 and appendix A; docs/algorithms.md, E1). Rates and memory are in any unit; only their proportions
 * count.
 */
import { assert } from "@tutti/units";

export interface PlacedModel {
  readonly rate: number;
  /** Sub-clusters get equally much of it, in any unit. Default: its rate, which rateMax bounds all the same. */
  readonly work?: number;
  /** Memory that is resident as long as the model is loaded. */
  readonly staticMemory: number;
  /** Memory that it needs while it runs; one model runs at a time, so the largest counts. */
  readonly dynamicMemory: number;
}

export interface Disruption {
  /** Previous cluster by model; −1: the model is new, and loading it costs nothing. */
  readonly previous: ArrayLike<number>;
  /** Cost by model of loading it, and of unloading it; a model that moves pays both. */
  readonly moveCost: ArrayLike<number>;
  /**
   * Upper bound on the cost of all moves together, up to rounding ({@link over}). Infinity: few moves are preferred,
   * but not bounded.
   */
  readonly costMax: number;
}

export interface SubClusterProblem {
  readonly models: readonly PlacedModel[];
  readonly clusters: number;
  readonly rateMax: number;
  readonly memoryMax: number;
  /** w. Default: mean rate over mean memory, so that objective over mean rate is the sum of both relative gaps. */
  readonly weight?: number;
  readonly disruption?: Disruption;
}

export interface SubClusterPlan {
  /** Cluster by model. */
  readonly clusters: Int32Array;
  readonly feasible: boolean;
  /** ΔR + w·ΔS. */
  readonly objective: number;
  /** ΔR: the largest difference of a cluster's rate (work) from the mean; and the same of static memory. */
  readonly rateGap: number;
  readonly memoryGap: number;
  /** Models on another cluster than before, and the cost of their moves. */
  readonly moved: number;
  readonly moveCost: number;
}

export interface Means {
  /** Mean of the rates, or of work where models have it. */
  readonly rate: number;
  readonly memory: number;
  readonly weight: number;
}

/** The objective counts this as a model's rate. */
export const workOf = ({ rate, work = rate }: PlacedModel): number => work;

/** R̄, S̄ and w. */
export function meansOf({ models, clusters, weight }: SubClusterProblem): Means {
  assert(clusters >= 1 && models.length > 0, `${models.length} models over ${clusters} clusters`);
  const rate = models.reduce((sum, model) => sum + workOf(model), 0) / clusters;
  const memory = models.reduce((sum, model) => sum + model.staticMemory, 0) / clusters;
  return { rate, memory, weight: weight ?? (memory > 0 ? rate / memory : 0) };
}

/** Evaluates a plan from scratch (E1), independently of the search that found it. */
export function judge(problem: SubClusterProblem, clusters: ArrayLike<number>): SubClusterPlan {
  const { models, rateMax, memoryMax, disruption } = problem;
  const means = meansOf(problem);
  const rates = new Float64Array(problem.clusters);
  const works = new Float64Array(problem.clusters);
  const memories = new Float64Array(problem.clusters);
  const largest = new Float64Array(problem.clusters);
  let [moved, moveCost] = [0, 0];
  for (const [i, model] of models.entries()) {
    const cluster = clusters[i]!;
    assert(Number.isInteger(cluster) && cluster >= 0 && cluster < problem.clusters, `cluster ${cluster} of model ${i}`);
    rates[cluster]! += model.rate;
    works[cluster]! += workOf(model);
    memories[cluster]! += model.staticMemory;
    largest[cluster] = Math.max(largest[cluster]!, model.dynamicMemory);
    if (!hasMoved(disruption, i, cluster)) continue;
    moved++;
    moveCost += 2 * disruption!.moveCost[i]!;
  }
  const rateGap = works.reduce((gap, work) => Math.max(gap, Math.abs(work - means.rate)), 0);
  const memoryGap = memories.reduce((gap, memory) => Math.max(gap, Math.abs(memory - means.memory)), 0);
  const fits = rates.every((rate, j) => rate <= over(rateMax) && memories[j]! + largest[j]! <= over(memoryMax));
  const objective = rateGap + means.weight * memoryGap;
  const feasible = fits && moveCost <= over(disruption?.costMax ?? Infinity);
  return { clusters: Int32Array.from(clusters), feasible, objective, rateGap, memoryGap, moved, moveCost };
}

/** Whether a model is elsewhere than before; a new one isn't. */
export const hasMoved = (disruption: Disruption | undefined, model: number, cluster: number): boolean =>
  disruption !== undefined && disruption.previous[model]! >= 0 && disruption.previous[model] !== cluster;

/** Total by which a plan exceeds its bounds, each relative to the mean; 0 where it keeps them. */
export function violationOf(problem: SubClusterProblem, clusters: ArrayLike<number>): number {
  const { memory: mean } = meansOf(problem);
  const rateMean = problem.models.reduce((sum, { rate }) => sum + rate, 0) / problem.clusters;
  const [rates, memories, largest] = [0, 1, 2].map(() => new Float64Array(problem.clusters));
  for (const [i, model] of problem.models.entries()) {
    const cluster = clusters[i]!;
    rates![cluster]! += model.rate;
    memories![cluster]! += model.staticMemory;
    largest![cluster] = Math.max(largest![cluster]!, model.dynamicMemory);
  }
  let violation = 0;
  for (let j = 0; j < problem.clusters; j++) {
    violation += Math.max(0, rates![j]! - problem.rateMax) / Math.max(rateMean, 1e-300);
    violation += Math.max(0, memories![j]! + largest![j]! - problem.memoryMax) / Math.max(mean, 1e-300);
  }
  return violation;
}

/** (max − min)/mean of the rates, and of static memory: the paper's imbalance factors. */
export function imbalanceOf(problem: SubClusterProblem, clusters: ArrayLike<number>): { rate: number; memory: number } {
  const sums = (value: (model: PlacedModel) => number): number => {
    const byCluster = new Float64Array(problem.clusters);
    for (const [i, model] of problem.models.entries()) byCluster[clusters[i]!]! += value(model);
    const mean = byCluster.reduce((sum, one) => sum + one, 0) / byCluster.length;
    return mean === 0 ? 0 : (Math.max(...byCluster) - Math.min(...byCluster)) / mean;
  };
  return { rate: sums(({ rate }) => rate), memory: sums(({ staticMemory }) => staticMemory) };
}

/** A bound with slack for rounding: sums in another order differ in their last digits. */
export const over = (bound: number): number => bound + 1e-9 * Math.max(1, Math.abs(bound));
