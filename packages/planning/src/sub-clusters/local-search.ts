/**
 * Annealing over moves and swaps: the production solver (docs/algorithms.md, E4; exact solvers find less in ten times the time, E3).
 *
 *   LS1. After every accepted proposal the true objective is evaluated, and the best feasible plan kept: now and then isn't enough.
 *   LS2. The budget of moves is never exceeded.
 *   LS3. A seed and a number of proposals determine the result.
 */
import { Prng } from "@tutti/units";
import { assignmentsOf, bestAssignment, greedyAssignment } from "./baselines.ts";
import { Landscape } from "./landscape.ts";
import { type SubClusterPlan, type SubClusterProblem, judge, violationOf } from "./problem.ts";
import { relabelled } from "./relabelling.ts";

export interface LocalSearchOptions {
  readonly seed: number;
  /** At most so many proposals. */
  readonly proposals: number;
  /** Asked every 1,024 proposals: a clock, which a core doesn't have. */
  readonly isOver?: () => boolean;
  /** Up to so many assignments all of them are looked at instead. */
  readonly enumerateMax?: number;
}

const ENUMERATE_MAX = 2e6;
const COOLING = 0.99;
const COOLING_EVERY = 1_024;
const COLDEST = 1e-9;
const SAMPLES = 200;

/**
 * @returns the best feasible plan found. Where there is none within the budget: the previous plan, infeasible; without one, the
 *   plan that violates its bounds least
 */
export function placeModels(problem: SubClusterProblem, options: LocalSearchOptions): SubClusterPlan {
  const { disruption } = problem;
  const found =
    assignmentsOf(problem) <= (options.enumerateMax ?? ENUMERATE_MAX)
      ? enumerated(problem)
      : annealed(problem, options);
  if (!found.feasible && disruption !== undefined) return { ...judge(problem, disruption.previous), feasible: false };
  if (disruption === undefined || disruption.costMax !== Infinity) return found;
  return judge(problem, relabelled(problem, found.clusters));
}

function enumerated(problem: SubClusterProblem): SubClusterPlan {
  return bestAssignment(problem) ?? judge(problem, problem.disruption?.previous ?? greedyAssignment(problem));
}

function annealed(problem: SubClusterProblem, { seed, proposals, isOver }: LocalSearchOptions): SubClusterPlan {
  const prng = new Prng(seed);
  const { disruption } = problem;
  const start = disruption === undefined ? greedyAssignment(problem) : Int32Array.from(disruption.previous);
  const land = new Landscape(problem, start);
  const isBudgeted = disruption !== undefined && disruption.costMax !== Infinity;
  const hottest = Math.max(1e-300, meanChange(land, prng) * (isBudgeted ? 0.1 : 1));
  const swapShare = isBudgeted ? 0.5 : 0.7;
  const best = new Best(problem, land);
  let heat = hottest;
  for (let i = 1; i <= proposals; i++) {
    if (i % COOLING_EVERY === 0) {
      if (isOver?.() === true) break;
      heat *= COOLING;
      if (heat < hottest * COLDEST) heat = prng.nextFloat() < 0.5 ? hottest : 0.01 * hottest;
    }
    if (prng.nextFloat() < swapShare) {
      const [a, b] = [prng.nextInt(land.models), prng.nextInt(land.models)];
      if (land.clusters[a] === land.clusters[b]) continue;
      land.proposeSwap(a, b);
    } else {
      const model = prng.nextInt(land.models);
      // With a budget half of the moves go home: they give back what others may spend.
      const goesHome = isBudgeted && prng.nextFloat() < 0.5;
      const to = goesHome ? disruption.previous[model]! : prng.nextInt(problem.clusters);
      if (land.clusters[model] === to) continue;
      land.proposeMove(model, to);
    }
    if (!land.isWithinBudget) continue;
    if (best.isFeasible && !land.fitsProposed()) continue;
    const change = land.change;
    if (change >= 0 && prng.nextFloat() >= Math.exp(-change / heat)) continue;
    land.accept();
    best.look();
  }
  return best.plan();
}

/** The best feasible plan so far, and the least violating one until there is one. */
class Best {
  readonly #problem: SubClusterProblem;
  readonly #land: Landscape;
  readonly #clusters: Int32Array;
  isFeasible = false;
  #objective = Infinity;
  #violation = Infinity;

  constructor(problem: SubClusterProblem, land: Landscape) {
    this.#problem = problem;
    this.#land = land;
    this.#clusters = Int32Array.from(land.clusters);
    this.look();
  }

  look(): void {
    const land = this.#land;
    if (land.misfits === 0) {
      const objective = land.objective();
      if (this.isFeasible && objective >= this.#objective) return;
      this.isFeasible = true;
      this.#objective = objective;
    } else {
      if (this.isFeasible) return;
      const violation = violationOf(this.#problem, land.clusters);
      if (violation >= this.#violation) return;
      this.#violation = violation;
    }
    this.#clusters.set(land.clusters);
  }
  plan(): SubClusterPlan {
    return judge(this.#problem, this.#clusters);
  }
}

function meanChange(land: Landscape, prng: Prng): number {
  let total = 0;
  for (let i = 0; i < SAMPLES; i++) {
    const model = prng.nextInt(land.models);
    const to = prng.nextInt(land.clusterCount);
    if (land.clusters[model] === to) continue;
    land.proposeMove(model, to);
    total += Math.abs(land.change);
  }
  return total / SAMPLES;
}
