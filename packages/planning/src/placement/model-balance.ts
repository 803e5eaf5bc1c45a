/** Moves of models between sub-clusters only to balance loads (MP4, MP6). */
import { type Carries, type Dealt, Divisions, EVEN_FULLER, isForced } from "../sub-clusters/fullness.ts";
import { placeModels } from "../sub-clusters/local-search.ts";
import { type SubClusterPlan, type SubClusterProblem, judge, meansOf, violationOf } from "../sub-clusters/problem.ts";
import { worksOf } from "./model-work.ts";
import { type DraftModel, type PlacementDraft, destinationOf } from "./placement-draft.ts";
import type { ModelMove } from "./placement-problem.ts";
import { bytesText } from "./placement-texts.ts";

/** Loads whose objective over mean work (E1) is at most this count as even. */
const TOLERANCE = 0.2;
/** A plan's objective must be at most this share of the current one, or the fullness of its fullest sub-cluster. */
const BETTER = 0.8;
/** Factor on the weight of memory where memory is unbounded: its evenness counts less than that of work. */
const WEIGHT_UNBOUNDED = 0.1;
/** 10 to 20 ms: whatever runs in the planner's process waits for them. */
const PROPOSALS = 50_000;
const ENUMERATE_MAX = 20_000;
/** Requests per second of all models; below, nothing is balanced. */
const RATE_MIN = 1;
/** Seconds in which rates are counted, and standard deviations of such a count that are chance. */
const WINDOW = 5;
const SURE = 2;
/** Move cost of a model that may not move. */
const NEVER_WORTH = 1e15;
const ROUNDING = 1e-9;

/** Balances loads (MP4): section E over the placed models. */
export function balance(draft: PlacementDraft): { moves: ModelMove[]; waiting: ModelMove[] } {
  const nothing = { moves: [], waiting: [] };
  const used = usableOf(draft);
  const byNumber = new Map(draft.models.map((entry) => [entry.model.number, entry]));
  const placed = draft.models.filter((entry) => used.includes(destinationOf(entry) ?? ""));
  if (used.length < 2 || placed.length === 0 || draft.rate < RATE_MIN) return nothing;
  const problem = subClusterProblem(draft, placed, used);
  const choice = new Choice(draft, problem, placed);
  const { now } = choice;
  const { rate: mean } = meansOf(problem);
  const found = choice.found();
  if (found === undefined) return nothing;
  const moves: ModelMove[] = [];
  const waiting: ModelMove[] = [];
  const clusters = Int32Array.from(found);
  for (const [i, entry] of placed.entries()) {
    const [from, to] = [entry.home, used[clusters[i]!]!];
    if (from === undefined || to === destinationOf(entry)) continue;
    const { number, memoryBytes } = entry.model;
    const move: ModelMove = { number, from, to, cost: 2 * memoryBytes, isForced: false };
    if (draft.couldHold({ subCluster: to, ...entry.model }) && draft.lostWith(to, entry.model) === 0) {
      draft.set(entry, { home: from, next: to });
      moves.push(move);
    } else {
      clusters[i] = problem.disruption!.previous[i]!;
      waiting.push(move);
    }
  }
  const made = judge(problem, clusters);
  const isWorth = choice.isWorth(made);
  const overloaded = isWorth ? used[choice.overloadedBy(clusters) ?? -1] : undefined;
  if (moves.length > 0 && (!isWorth || overloaded !== undefined)) {
    // Some moves must wait for room, and without them the others don't make the loads clearly better (MP4), or break
    // a bound (MP6).
    if (overloaded !== undefined)
      for (const { number, to } of moves)
        draft.explain(
          byNumber.get(number)!.model.name,
          `would make loads more even in ${to}, and stays: ${overloaded} could not carry its requests then`,
        );
    for (const { number, from } of moves) draft.set(byNumber.get(number)!, { home: from, next: undefined });
    return { moves: [], waiting: [...moves, ...waiting] };
  }
  for (const { number, from, to, cost } of moves) {
    const { model } = byNumber.get(number)!;
    const gaps =
      choice.isEven(made) || !choice.isLessFull(made)
        ? `sub-clusters differ from the mean by ${percent(made.objective / mean)} then, as it is by ${percent(now.objective / mean)} (work and memory)`
        : `the fullest sub-cluster is full to ${percent(choice.fullnessOf(made.clusters))} then, as it is to ${percent(choice.fullnessOf(now.clusters))}`;
    const costs = `it costs ${bytesText(cost)} of the ${bytesText(draft.problem.costMax)} that may move`;
    draft.explain(model.name, `goes from ${from} to ${to}: ${gaps}; ${costs}`);
  }
  for (const { number, to } of waiting) {
    const { model } = byNumber.get(number)!;
    draft.explain(
      model.name,
      `would be better in ${to}, and waits: accelerators there have no room for ${bytesText(model.memoryBytes)} more`,
    );
  }
  return { moves, waiting };
}

/** The division of models that is to be made (docs/algorithms.md, E8), and whether it is worth its moves. */
class Choice {
  readonly now: SubClusterPlan;
  readonly #problem: SubClusterProblem;
  readonly #seed: number;
  /** How full sub-clusters are; undefined: unknown. */
  readonly #divisions: Divisions | undefined;
  readonly #isForced: boolean;
  /** Rate above what rankers decide for now. */
  readonly #over: number;

  constructor(
    { problem: { carries, carriesCost, seed }, executors }: PlacementDraft,
    problem: SubClusterProblem,
    placed: readonly DraftModel[],
  ) {
    this.#problem = problem;
    this.#seed = seed;
    this.now = judge(problem, problem.disruption!.previous);
    this.#over = excessOf(problem, this.now.clusters);
    const gpus = executors.reduce((sum, one) => sum + one.gpus.length, 0);
    const ofPlaced = (known: NonNullable<typeof carries>): Carries => (models, own) =>
      known(models.map((i) => placed[i]!.model.number), own); // prettier-ignore
    this.#divisions = carries === undefined ? undefined : new Divisions(problem, gpus, ofPlaced(carries), carriesCost);
    this.#isForced = this.#divisions !== undefined && isForced(problem);
  }

  /** undefined: all stays as it is. */
  found(): Int32Array | undefined {
    if (this.#over === 0 && this.#isEvenNow() && !this.#isForced) return undefined;
    const even = searched(this.#problem, this.#seed);
    if (!even.feasible) return undefined;
    const others = this.now.feasible ? [this.now.clusters] : [];
    const { clusters } = this.#divisions?.best(even.clusters, this.#seed, ...others) ?? even;
    return this.isWorth(judge(this.#problem, clusters)) ? clusters : undefined;
  }

  isWorth(plan: SubClusterPlan): boolean {
    const excess = excessOf(this.#problem, plan.clusters);
    if (this.#over > 0) return excess <= BETTER * this.#over;
    return excess === 0 && (this.isEven(plan) || this.isLessFull(plan));
  }

  /** Whether loads become clearly more even, and where memory divides, no sub-cluster much fuller. */
  isEven(plan: SubClusterPlan): boolean {
    if (this.#isEvenNow() || plan.objective > BETTER * this.now.objective) return false;
    return !this.#isForced || this.fullnessOf(plan.clusters) <= EVEN_FULLER * this.fullnessOf(this.now.clusters);
  }

  /** Whether memory divides, and the fullest sub-cluster becomes clearly less full. */
  isLessFull(plan: SubClusterPlan): boolean {
    return this.#isForced && this.fullnessOf(plan.clusters) < BETTER * this.fullnessOf(this.now.clusters);
  }

  #isEvenNow(): boolean {
    return this.now.objective <= TOLERANCE * meansOf(this.#problem).rate + SURE * swingOf(this.#problem);
  }

  /** Fullness of the fullest sub-cluster; Infinity: one that is to be used has no model. */
  fullnessOf(clusters: Int32Array): number {
    if (new Set(clusters).size < Math.min(this.#problem.clusters, clusters.length)) return Infinity;
    return this.#divisions!.dealt(clusters).fullness;
  }

  /**
   * Sub-cluster whose accelerators would carry less than is asked for, while now all carry it (MP6); undefined: none.
   */
  overloadedBy(clusters: Int32Array): number | undefined {
    const overloaded = (dealt: Dealt | undefined): boolean => (dealt?.times ?? Infinity) < 1;
    const [before, after] = [this.now.clusters, clusters].map((one) => this.#divisions?.dealt(one));
    return overloaded(after) && !overloaded(before) ? after!.fullest : undefined;
  }
}

/** The bound on rates is given up where no plan within the budget keeps it: even loads are better than none. */
function searched(problem: SubClusterProblem, seed: number): SubClusterPlan {
  const options = { seed, proposals: PROPOSALS, enumerateMax: ENUMERATE_MAX };
  const found = placeModels(problem, options);
  if (found.feasible || problem.rateMax === Infinity) return found;
  return placeModels({ ...problem, rateMax: Infinity }, options);
}

/** Standard deviation of a sub-cluster's work where its models' requests come at random. */
function swingOf({ models, clusters }: SubClusterProblem): number {
  const variance = models.reduce((sum, { rate, work = rate }) => sum + (rate > 0 ? work ** 2 / (rate * WINDOW) : 0), 0);
  return Math.sqrt(variance / clusters);
}

/** Rate above what rankers decide for, relative to the mean; 0: none (MP6). */
function excessOf(problem: SubClusterProblem, clusters: Int32Array): number {
  const excess = violationOf({ ...problem, memoryMax: Infinity }, clusters);
  return excess > ROUNDING ? excess : 0;
}

/**
 * Sub-clusters to balance over, at most as many as there are executors: those that have executors or models come first.
 */
function usableOf(draft: PlacementDraft): string[] {
  const { subClusters } = draft.problem;
  const { executors } = draft;
  const rank = (subCluster: string): number =>
    draft.executorsOf(subCluster).length > 0 ? 0 : draft.hasModels(subCluster) ? 1 : 2;
  const open = subClusters.filter((subCluster) => draft.isOpen(subCluster));
  return open.toSorted((a, b) => rank(a) - rank(b)).slice(0, executors.length);
}

function subClusterProblem(
  draft: PlacementDraft,
  placed: readonly DraftModel[],
  used: readonly string[],
): SubClusterProblem {
  const { costMax } = draft.problem;
  const { executors } = draft;
  const capacities = executors.map((one) => draft.bytesOf(one)).sort((a, b) => b - a);
  const memoryMax = capacities[used.length - 1]!;
  const works = worksOf(placed.map(({ model }) => model));
  const models = placed.map(({ model }, i) => ({
    rate: model.rate,
    work: works[i]!,
    staticMemory: model.memoryBytes,
    dynamicMemory: model.dynamicBytes ?? 0,
  }));
  const problem = { models, clusters: used.length, rateMax: draft.problem.rateMax ?? Infinity, memoryMax };
  const { weight } = meansOf(problem);
  return {
    ...problem,
    ...(memoryMax === Infinity && { weight: WEIGHT_UNBOUNDED * weight }),
    disruption: {
      previous: placed.map((entry) => used.indexOf(destinationOf(entry)!)),
      // Half of the bytes, since a model that moves pays twice. A model that is moving isn't turned back.
      moveCost: placed.map(({ model, next }) =>
        next !== undefined || model.isPinned === true ? NEVER_WORTH : Math.max(1, model.memoryBytes),
      ),
      costMax,
    },
  };
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;
