/**
 * Divisions by how full the fullest sub-cluster is (docs/algorithms.md, E8): it limits the others.
 *
 *   FULL-1. Bounds and the budget of moves are kept, and no division is fuller than the one that it starts from.
 *   FULL-2. The time of a search is bounded: by the models whose capacity together is asked for.
 */
import { Prng } from "@tutti/units";
import { dealtInProportion } from "./dealing.ts";
import { type SubClusterProblem, judge, workOf } from "./problem.ts";

/**
 * How many times their present rates accelerators carry of models, by their index (D9); undefined: unknown, or nobody
 * asks for them.
 */
export type Carries = (models: readonly number[], gpus: number) => number | undefined;

/** Accelerators by sub-cluster, and the sub-cluster that is fullest. */
export interface Dealt {
  readonly gpus: readonly number[];
  /** Share of its capacity that the fullest is asked for; Infinity: it can serve nothing. */
  readonly fullness: number;
  readonly fullest: number;
  /** How many times its present rates the fullest carries; undefined: unknown. */
  readonly times: number | undefined;
}
export interface DealtPlan extends Dealt {
  readonly clusters: Int32Array;
}

/** Share of all accelerators that counts as asked for evenly, so that a few requests don't pull all to one place. */
export const EVEN_SHARE = 0.05;
/** Models whose capacity a search asks for: 20 to 50 ms, in which its process does nothing else. */
const ASKED_MAX = 3_000;
/** A step that helps by less is none. */
const STEP = 0.999;
/** Even work is preferred where its fullest sub-cluster is fuller by at most this factor. */
export const EVEN_FULLER = 1 / 0.9;

/** Moves accelerators one by one to the fullest part, while that helps. @returns the most full part of the result */
export function dealtByFullness(
  start: readonly number[],
  fullnessOf: (part: number, gpus: number) => number,
): Omit<Dealt, "times"> {
  const gpus = [...start];
  const full = gpus.map((own, part) => fullnessOf(part, own));
  for (;;) {
    const fullest = full.reduce((most, one, part) => (one > full[most]! ? part : most), 0);
    const before = full[fullest]!;
    const after = fullnessOf(fullest, gpus[fullest]! + 1);
    const donors = [...gpus.keys()].filter((part) => part !== fullest && gpus[part]! > 1);
    donors.sort((a, b) => full[a]! - full[b]!);
    const donor = after < before ? donors.find((part) => fullnessOf(part, gpus[part]! - 1) < before) : undefined;
    if (donor === undefined) return { gpus, fullness: before, fullest };
    full[fullest] = after;
    full[donor] = fullnessOf(donor, gpus[donor]! - 1);
    gpus[fullest]!++;
    gpus[donor]!--;
  }
}

/** How full parts are with so many accelerators, with what counts as asked for evenly. */
export function fullnessBy(
  all: number,
  parts: number,
  times: (part: number, gpus: number) => number | undefined,
): (part: number, gpus: number) => number {
  const even = (EVEN_SHARE * all) / parts;
  return (part, gpus) => 1 / (times(part, gpus) ?? Infinity) + even / gpus;
}

export class Divisions {
  readonly #problem: SubClusterProblem;
  readonly #gpus: number;
  readonly #carries: Carries;
  readonly #cost: number;
  readonly #known = new Map<string, number | undefined>();
  #asked = 0;

  /** @param cost - of `carries`, as a multiple of what a pool of one type costs */
  constructor(problem: SubClusterProblem, gpus: number, carries: Carries, cost = 1) {
    this.#problem = problem;
    this.#gpus = gpus;
    this.#carries = carries;
    this.#cost = cost;
  }

  /** Accelerators in proportion to the work, and then moved to what is fullest. */
  dealt(clusters: ArrayLike<number>): Dealt {
    const works = new Float64Array(this.#problem.clusters);
    const members = Array.from(works, (): number[] => []);
    for (const [i, model] of this.#problem.models.entries()) {
      works[clusters[i]!]! += workOf(model);
      members[clusters[i]!]!.push(i);
    }
    const times = (cluster: number, gpus: number): number | undefined => this.#times(members[cluster]!, gpus);
    const start = dealtInProportion(this.#gpus, works);
    const dealt = dealtByFullness(start, fullnessBy(this.#gpus, works.length, times));
    return { ...dealt, times: times(dealt.fullest, dealt.gpus[dealt.fullest]!) };
  }

  /**
   * The division of even work, or a better one that is found from it or from another start, where memory makes
   * divisions: otherwise the best one would leave nearly all with one sub-cluster, and relieve no ranker.
   */
  best(even: ArrayLike<number>, seed: number, ...others: readonly ArrayLike<number>[]): DealtPlan {
    const asIs = { clusters: Int32Array.from(even), ...this.dealt(even) };
    if (!isForced(this.#problem)) return asIs;
    const starts = [even, ...others];
    const climbed = starts.map((start) => this.#climbed(start, this.#asked + ASKED_MAX / starts.length, seed));
    const best = climbed.reduce((least, one) => (one.fullness < least.fullness ? one : least));
    return asIs.fullness <= EVEN_FULLER * best.fullness ? asIs : best;
  }

  /** Moves and swaps of single models, as long as they help the fullest sub-cluster. */
  #climbed(start: ArrayLike<number>, askedMax: number, seed: number): DealtPlan {
    const prng = new Prng(seed);
    const clusters = Int32Array.from(start);
    let now = this.dealt(clusters);
    while (this.#asked < askedMax) {
      const better = this.#step(clusters, now, askedMax, prng);
      if (better === undefined) break;
      now = better;
    }
    return { ...now, clusters };
  }

  /** Takes the first of all steps, in a random order, that helps; undefined: none does. */
  #step(clusters: Int32Array, now: Dealt, askedMax: number, prng: Prng): Dealt | undefined {
    const steps = this.#stepsFrom(clusters, now.fullest);
    for (let left = steps.length; left > 0 && this.#asked < askedMax; left--) {
      const at = prng.nextInt(left);
      const step = steps[at]!;
      steps[at] = steps[left - 1]!;
      const before = step.map(([model]) => clusters[model]!);
      for (const [model, to] of step) clusters[model] = to;
      if (judge(this.#problem, clusters).feasible) {
        const then = this.dealt(clusters);
        if (then.fullness < STEP * now.fullness) return then;
      }
      for (const [i, [model]] of step.entries()) clusters[model] = before[i]!;
    }
    return undefined;
  }

  /** Models of the fullest sub-cluster that leave it or change places with another one; it keeps one at least. */
  #stepsFrom(clusters: Int32Array, fullest: number): (readonly (readonly [model: number, to: number])[])[] {
    const all = [...clusters.keys()];
    const own = all.filter((model) => clusters[model] === fullest);
    const others = all.filter((model) => clusters[model] !== fullest);
    const targets = Array.from({ length: this.#problem.clusters }, (_, j) => j).filter((j) => j !== fullest);
    return own.flatMap((model) => [
      ...(own.length > 1 ? targets.map((to) => [[model, to] as const]) : []),
      ...others.map((other) => [[model, clusters[other]!] as const, [other, fullest] as const]),
    ]);
  }

  #times(models: readonly number[], gpus: number): number | undefined {
    if (models.length === 0) return undefined;
    const key = `${gpus}:${models.join()}`;
    if (!this.#known.has(key)) {
      this.#asked += models.length * this.#cost;
      this.#known.set(key, this.#carries(models, gpus));
    }
    return this.#known.get(key);
  }
}

/** Whether one sub-cluster can't hold all models. */
export function isForced({ models, memoryMax }: Pick<SubClusterProblem, "models" | "memoryMax">): boolean {
  const statics = models.reduce((sum, { staticMemory }) => sum + staticMemory, 0);
  return statics + models.reduce((most, { dynamicMemory }) => Math.max(most, dynamicMemory), 0) > memoryMax;
}
