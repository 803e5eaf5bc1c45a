/**
 * Baselines of the local search: greedy, uniform assignments, and the enumeration of all assignments.
 * docs/algorithms.md, E3 and E4.
 */
import { Prng } from "@tutti/units";
import {
  type Means,
  type SubClusterPlan,
  type SubClusterProblem,
  hasMoved,
  judge,
  meansOf,
  over,
  workOf,
} from "./problem.ts";

/**
 * Places models by max(r/R̄, s/S̄) descending, each into the feasible cluster of least resulting max(R_j/R̄, S_j/S̄);
 * where no cluster is feasible, into the least of all.
 */
export function greedyAssignment(problem: SubClusterProblem): Int32Array {
  return greedyAround(problem, new Int32Array(problem.models.length).fill(-1));
}

/** Keeps all models where they are; new models, if any, are placed greedily. */
export const keptAssignment = (problem: SubClusterProblem, previous: ArrayLike<number>): Int32Array =>
  greedyAround(problem, previous);

/** @param given - by model, its current cluster; −1: to be placed */
function greedyAround(problem: SubClusterProblem, given: ArrayLike<number>): Int32Array {
  const { models, rateMax, memoryMax } = problem;
  const means = meansOf(problem);
  const rateShare = (rate: number): number => (means.rate > 0 ? rate / means.rate : 0);
  const memoryShare = (memory: number): number => (means.memory > 0 ? memory / means.memory : 0);
  const weights = models.map((one) => Math.max(rateShare(workOf(one)), memoryShare(one.staticMemory)));
  const order = [...models.keys()].filter((i) => given[i]! < 0).sort((a, b) => weights[b]! - weights[a]! || a - b);
  const assigned = Int32Array.from(given);
  const [rates, works, memories, largest] = [0, 1, 2, 3].map(() => new Float64Array(problem.clusters));
  for (const [i, { rate, work = rate, staticMemory, dynamicMemory }] of models.entries()) {
    const cluster = given[i]!;
    if (cluster < 0) continue;
    rates![cluster]! += rate;
    works![cluster]! += work;
    memories![cluster]! += staticMemory;
    largest![cluster] = Math.max(largest![cluster]!, dynamicMemory);
  }
  for (const i of order) {
    const { rate, work = rate, staticMemory, dynamicMemory } = models[i]!;
    let [best, bestLoad, bestFits] = [-1, Infinity, false];
    for (let j = 0; j < problem.clusters; j++) {
      const load = Math.max(rateShare(works![j]! + work), memoryShare(memories![j]! + staticMemory));
      const fits =
        rates![j]! + rate <= rateMax &&
        memories![j]! + staticMemory + Math.max(largest![j]!, dynamicMemory) <= memoryMax;
      if (fits === bestFits ? load >= bestLoad : bestFits) continue;
      [best, bestLoad, bestFits] = [j, load, fits];
    }
    assigned[i] = best;
    rates![best]! += rate;
    works![best]! += work;
    memories![best]! += staticMemory;
    largest![best] = Math.max(largest![best]!, dynamicMemory);
  }
  return assigned;
}

/** The paper's baseline: the best feasible of `tries` uniform assignments; undefined where none was feasible. */
export function randomAssignment(problem: SubClusterProblem, tries: number, seed: number): SubClusterPlan | undefined {
  const prng = new Prng(seed);
  let best: SubClusterPlan | undefined;
  const drawn = new Int32Array(problem.models.length);
  for (let i = 0; i < tries; i++) {
    for (let k = 0; k < drawn.length; k++) drawn[k] = prng.nextInt(problem.clusters);
    const plan = judge(problem, drawn);
    if (plan.feasible && (best === undefined || plan.objective < best.objective)) best = plan;
  }
  return best;
}

/** l^m; Infinity beyond what a double holds. */
export const assignmentsOf = ({ models, clusters }: SubClusterProblem): number => clusters ** models.length;

/**
 * Enumerates the assignments, except those ruled out by bounds that further models can't repair.
 * @returns the best feasible one, the first of equal ones; undefined where none is feasible
 */
export function bestAssignment(problem: SubClusterProblem): SubClusterPlan | undefined {
  const found = new Enumeration(problem).best();
  return found === undefined ? undefined : judge(problem, found);
}

class Enumeration {
  readonly #problem: SubClusterProblem;
  readonly #means: Means;
  readonly #clusters: Int32Array;
  readonly #rates: Float64Array;
  readonly #works: Float64Array;
  readonly #memories: Float64Array;
  readonly #largest: Float64Array;
  #cost = 0;
  #objective = Infinity;
  #best: Int32Array | undefined;

  constructor(problem: SubClusterProblem) {
    this.#problem = problem;
    this.#means = meansOf(problem);
    this.#clusters = new Int32Array(problem.models.length);
    this.#rates = new Float64Array(problem.clusters);
    this.#works = new Float64Array(problem.clusters);
    this.#memories = new Float64Array(problem.clusters);
    this.#largest = new Float64Array(problem.clusters);
  }

  best(): Int32Array | undefined {
    this.#place(0);
    return this.#best;
  }

  #place(i: number): void {
    const { models, clusters, rateMax, memoryMax, disruption } = this.#problem;
    if (i === models.length) return this.#look();
    const { rate, work = rate, staticMemory, dynamicMemory } = models[i]!;
    for (let j = 0; j < clusters; j++) {
      const cost = hasMoved(disruption, i, j) ? 2 * disruption!.moveCost[i]! : 0;
      const largest = this.#largest[j]!;
      this.#rates[j]! += rate;
      this.#works[j]! += work;
      this.#memories[j]! += staticMemory;
      this.#largest[j] = Math.max(largest, dynamicMemory);
      this.#cost += cost;
      const fits = this.#rates[j]! <= over(rateMax) && this.#memories[j]! + this.#largest[j]! <= over(memoryMax);
      if (fits && this.#cost <= over(disruption?.costMax ?? Infinity)) {
        this.#clusters[i] = j;
        this.#place(i + 1);
      }
      this.#rates[j]! -= rate;
      this.#works[j]! -= work;
      this.#memories[j]! -= staticMemory;
      this.#largest[j] = largest;
      this.#cost -= cost;
    }
  }

  #look(): void {
    const { rate, memory, weight } = this.#means;
    let [rateGap, memoryGap] = [0, 0];
    for (let j = 0; j < this.#rates.length; j++) {
      rateGap = Math.max(rateGap, Math.abs(this.#works[j]! - rate));
      memoryGap = Math.max(memoryGap, Math.abs(this.#memories[j]! - memory));
    }
    const objective = rateGap + weight * memoryGap;
    // Incremental sums differ from fresh ones in their last digits.
    if (objective >= this.#objective - 1e-9 * Math.max(1, objective)) return;
    this.#objective = objective;
    this.#best = Int32Array.from(this.#clusters);
  }
}
