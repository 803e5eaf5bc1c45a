/**
 * Annealing over moves and swaps: the production solver (docs/algorithms.md, E4; exact solvers find less in ten times
 * the time, E3).
 *
 *   SEARCH-1. After every accepted proposal the true objective is evaluated, and the best feasible plan kept: now and
 *             then isn't enough.
 *   SEARCH-2. The budget of moves is never exceeded.
 *   SEARCH-3. A seed and a number of proposals determine the result.
 */
import { Prng } from "@tutti/units";
import { assignmentsOf, bestAssignment, greedyAssignment, keptAssignment } from "./baselines.ts";
import { Landscape } from "./landscape.ts";
import { type Disruption, type SubClusterPlan, type SubClusterProblem, judge, violationOf } from "./problem.ts";
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
/** With a budget a plan gets less even than without, so that colder searches stand still. */
const COLDEST_WITHIN = 1e-7;
/** e^−40: not in as many proposals as a search has. */
const HOPELESS = 40;
const SAMPLES = 200;

/**
 * @returns the best feasible plan found. Where there is none within the budget: the previous plan, infeasible, with new
 *   models placed greedily; without one, the plan that violates its bounds least
 */
export function placeModels(problem: SubClusterProblem, options: LocalSearchOptions): SubClusterPlan {
  const { disruption } = problem;
  const found =
    assignmentsOf(problem) <= (options.enumerateMax ?? ENUMERATE_MAX)
      ? enumerated(problem)
      : annealed(problem, options);
  if (!found.feasible && disruption !== undefined) return { ...judge(problem, startOf(problem)), feasible: false };
  if (disruption === undefined || disruption.costMax !== Infinity) return found;
  return judge(problem, relabelled(problem, found.clusters));
}

function enumerated(problem: SubClusterProblem): SubClusterPlan {
  return bestAssignment(problem) ?? judge(problem, startOf(problem));
}

const startOf = (problem: SubClusterProblem): Int32Array =>
  problem.disruption === undefined ? greedyAssignment(problem) : keptAssignment(problem, problem.disruption.previous);

function annealed(problem: SubClusterProblem, { seed, proposals, isOver }: LocalSearchOptions): SubClusterPlan {
  const prng = new Prng(seed);
  const { disruption } = problem;
  const land = new Landscape(problem, startOf(problem));
  const isBudgeted = disruption !== undefined && disruption.costMax !== Infinity;
  const propose = isBudgeted ? proposerWithin(land, prng, disruption) : proposer(land, prng);
  const hottest = Math.max(1e-300, meanChange(land, prng) * (isBudgeted ? 0.1 : 1));
  const coldest = hottest * (isBudgeted ? COLDEST_WITHIN : COLDEST);
  const best = new Best(problem, land);
  let heat = hottest;
  for (let i = 1; i <= proposals; i++) {
    if (i % COOLING_EVERY === 0) {
      if (isOver?.() === true) break;
      heat *= COOLING;
      if (heat < coldest) heat = prng.nextFloat() < 0.5 ? hottest : 0.01 * hottest;
    }
    if (!propose() || !land.isWithinBudget) continue;
    const change = land.change;
    if (change >= 0 && (change > HOPELESS * heat || prng.nextFloat() >= Math.exp(-change / heat))) continue;
    land.accept();
    if (best.isFeasible && land.misfits > 0) land.undo();
    else best.look();
  }
  return best.plan();
}

/** Proposes one change. @returns whether there was one */
type Propose = () => boolean;

function proposer(land: Landscape, prng: Prng): Propose {
  const swap = swapProposer(land, prng);
  const move = moveProposer(land, prng);
  return () => (prng.nextFloat() < 0.7 ? swap() : move());
}

const swapProposer =
  (land: Landscape, prng: Prng): Propose =>
  () => {
    const [a, b] = [prng.nextInt(land.models), prng.nextInt(land.models)];
    if (land.clusters[a] === land.clusters[b]) return false;
    land.proposeSwap(a, b);
    return true;
  };
const moveProposer =
  (land: Landscape, prng: Prng): Propose =>
  () => {
    const [model, to] = [prng.nextInt(land.models), prng.nextInt(land.clusterCount)];
    if (land.clusters[model] === to) return false;
    land.proposeMove(model, to);
    return true;
  };

/**
 * Once a budget is spent, moves and swaps of models that are at home all exceed it: of 800 models with 100 away nine of
 * ten proposals would be refused unseen. So most proposals are about those that are away, which cost nothing more: one
 * goes home and another leaves instead, one goes elsewhere, two change places.
 */
function proposerWithin(land: Landscape, prng: Prng, { previous }: Disruption): Propose {
  const swap = swapProposer(land, prng);
  const move = moveProposer(land, prng);
  const anyAway = (): number => land.awayModel(prng.nextInt(land.awayCount));
  return () => {
    const kind = prng.nextFloat();
    if (land.awayCount === 0 || kind < 0.15) return move();
    if (kind < 0.35) return swap();
    if (kind < 0.5) {
      const [a, b] = [anyAway(), anyAway()];
      if (land.clusters[a] === land.clusters[b]) return false;
      land.proposeSwap(a, b);
      return true;
    }
    const model = anyAway();
    if (kind < 0.65) {
      const to = prng.nextInt(land.clusterCount);
      if (land.clusters[model] === to) return false;
      land.proposeMove(model, to);
      return true;
    }
    const [other, to] = [prng.nextInt(land.models), prng.nextInt(land.clusterCount)];
    if (other === model || land.clusters[other] === to) return false;
    land.proposeBoth(model, previous[model]!, other, to);
    return true;
  };
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
