/**
 * An assignment during the search: sums by cluster, the effect of one proposal on them, and its cost. O(1) a proposal,
 * O(l) an objective.
 *
 *   LANDSCAPE-1. A proposal is one model that moves, or two. `undo` takes back the one that was accepted last.
 *   LANDSCAPE-2. `away` are exactly the models that aren't where they were before, in any order.
 */
import { type Means, type SubClusterProblem, hasMoved, meansOf, over, workOf } from "./problem.ts";

export class Landscape {
  readonly models: number;
  readonly clusterCount: number;
  readonly clusters: Int32Array;
  /** Clusters that break a bound. */
  misfits = 0;
  /** Δφ of the proposal, for the surrogate φ = Σ ((R_j−R̄)/R̄)² + ((S_j−S̄)/S̄)². */
  change = 0;

  readonly #problem: SubClusterProblem;
  readonly #means: Means;
  /** 1/R̄² and 1/S̄²; 0 where the mean is 0. */
  readonly #perRate: number;
  readonly #perMemory: number;
  readonly #rate: Float64Array;
  readonly #work: Float64Array;
  readonly #memory: Float64Array;
  /** Place of each model's dynamic memory among the distinct ones, ascending. */
  readonly #level: Int32Array;
  readonly #levels: Float64Array;
  readonly #rates: Float64Array;
  readonly #works: Float64Array;
  readonly #memories: Float64Array;
  /** Number of models by cluster and level, so that the largest is found without looking at models. */
  readonly #counts: Int32Array;
  #cost = 0;
  /** The first `awayCount` models are away; place of each model among them, −1: it isn't away. */
  readonly #away: Int32Array;
  readonly #awayAt: Int32Array;
  awayCount = 0;
  // The proposal: one model and its target, or two; −1: no second one.
  #first = 0;
  #firstTo = 0;
  #second = -1;
  #secondTo = 0;
  // Sources of the proposal that was accepted last.
  #firstFrom = 0;
  #secondFrom = 0;
  #costAfter = 0;
  readonly #costMax: number;

  constructor(problem: SubClusterProblem, clusters: Int32Array) {
    const { models } = problem;
    this.#problem = problem;
    this.#means = meansOf(problem);
    this.#costMax = over(problem.disruption?.costMax ?? Infinity);
    const { rate, memory } = this.#means;
    this.#perRate = rate === 0 ? 0 : 1 / (rate * rate);
    this.#perMemory = memory === 0 ? 0 : 1 / (memory * memory);
    this.models = models.length;
    this.clusterCount = problem.clusters;
    this.clusters = Int32Array.from(clusters);
    this.#rate = Float64Array.from(models, ({ rate }) => rate);
    this.#work = Float64Array.from(models, workOf);
    this.#memory = Float64Array.from(models, ({ staticMemory }) => staticMemory);
    this.#levels = Float64Array.from(new Set(models.map(({ dynamicMemory }) => dynamicMemory))).sort();
    this.#level = Int32Array.from(models, ({ dynamicMemory }) => this.#levels.indexOf(dynamicMemory));
    this.#rates = new Float64Array(problem.clusters);
    this.#works = new Float64Array(problem.clusters);
    this.#memories = new Float64Array(problem.clusters);
    this.#counts = new Int32Array(problem.clusters * this.#levels.length);
    this.#away = new Int32Array(this.models);
    this.#awayAt = new Int32Array(this.models).fill(-1);
    for (let i = 0; i < this.models; i++) {
      this.#add(i, clusters[i]!, 1);
      this.#cost += this.#costOf(i, clusters[i]!);
      this.#note(i);
    }
    this.misfits = this.#rates.reduce((count, _, j) => count + (this.#fits(j) ? 0 : 1), 0);
  }

  /** ΔR + w·ΔS of the current assignment. */
  objective(): number {
    const { rate, memory, weight } = this.#means;
    let [rateGap, memoryGap] = [0, 0];
    for (let j = 0; j < this.clusterCount; j++) {
      const ofRate = Math.abs(this.#works[j]! - rate);
      const ofMemory = Math.abs(this.#memories[j]! - memory);
      if (ofRate > rateGap) rateGap = ofRate;
      if (ofMemory > memoryGap) memoryGap = ofMemory;
    }
    return rateGap + weight * memoryGap;
  }

  /** Number of a model that isn't where it was before, by its place among those. */
  awayModel(index: number): number {
    return this.#away[index]!;
  }

  proposeMove(model: number, to: number): void {
    this.#propose(model, to, -1, 0);
  }
  proposeSwap(a: number, b: number): void {
    this.#propose(a, this.clusters[b]!, b, this.clusters[a]!);
  }
  proposeBoth(a: number, aTo: number, b: number, bTo: number): void {
    this.#propose(a, aTo, b, bTo);
  }
  get isWithinBudget(): boolean {
    return this.#costAfter <= this.#costMax;
  }

  accept(): void {
    this.#firstFrom = this.clusters[this.#first]!;
    this.#put(this.#first, this.#firstTo);
    if (this.#second < 0) return;
    this.#secondFrom = this.clusters[this.#second]!;
    this.#put(this.#second, this.#secondTo);
  }
  undo(): void {
    if (this.#second >= 0) this.#put(this.#second, this.#secondFrom);
    this.#put(this.#first, this.#firstFrom);
  }

  #propose(first: number, firstTo: number, second: number, secondTo: number): void {
    this.#first = first;
    this.#firstTo = firstTo;
    this.#second = second;
    this.#secondTo = secondTo;
    const from = this.clusters[first]!;
    this.change = this.#changeOf(first, from, firstTo);
    this.#costAfter = this.#cost + this.#costOf(first, firstTo) - this.#costOf(first, from);
    if (second < 0) return;
    const secondFrom = this.clusters[second]!;
    this.change += this.#changeOf(second, secondFrom, secondTo);
    // φ is quadratic: two moves together change it by the sum of both changes, plus twice the product of their effects
    // on the same clusters.
    const shared =
      (firstTo === secondTo ? 1 : 0) -
      (firstTo === secondFrom ? 1 : 0) -
      (from === secondTo ? 1 : 0) +
      (from === secondFrom ? 1 : 0);
    if (shared !== 0) {
      const ofRate = this.#work[first]! * this.#work[second]! * this.#perRate;
      this.change += 2 * shared * (ofRate + this.#memory[first]! * this.#memory[second]! * this.#perMemory);
    }
    this.#costAfter += this.#costOf(second, secondTo) - this.#costOf(second, secondFrom);
  }
  /** Δφ of one model that moves. */
  #changeOf(model: number, from: number, to: number): number {
    if (from === to) return 0;
    const [work, memory] = [this.#work[model]!, this.#memory[model]!];
    const ofRate = work * (work + this.#works[to]! - this.#works[from]!) * this.#perRate;
    return 2 * (ofRate + memory * (memory + this.#memories[to]! - this.#memories[from]!) * this.#perMemory);
  }

  #put(model: number, to: number): void {
    const from = this.clusters[model]!;
    if (from === to) return;
    this.misfits -= (this.#fits(from) ? 0 : 1) + (this.#fits(to) ? 0 : 1);
    this.#cost += this.#costOf(model, to) - this.#costOf(model, from);
    this.#add(model, from, -1);
    this.#add(model, to, 1);
    this.clusters[model] = to;
    this.#note(model);
    this.misfits += (this.#fits(from) ? 0 : 1) + (this.#fits(to) ? 0 : 1);
  }

  #fits(cluster: number): boolean {
    const { rateMax, memoryMax } = this.#problem;
    if (this.#rates[cluster]! > rateMax * (1 + 1e-12)) return false;
    const base = cluster * this.#levels.length;
    let level = this.#levels.length - 1;
    while (level >= 0 && this.#counts[base + level]! === 0) level--;
    const largest = level < 0 ? 0 : this.#levels[level]!;
    return this.#memories[cluster]! + largest <= memoryMax * (1 + 1e-12);
  }

  /** Keeps LANDSCAPE-2 after a model's cluster has changed. */
  #note(model: number): void {
    const isAway = hasMoved(this.#problem.disruption, model, this.clusters[model]!);
    const at = this.#awayAt[model]!;
    if (isAway === at >= 0) return;
    if (isAway) {
      this.#awayAt[model] = this.awayCount;
      this.#away[this.awayCount++] = model;
      return;
    }
    const last = this.#away[--this.awayCount]!;
    this.#away[at] = last;
    this.#awayAt[last] = at;
    this.#awayAt[model] = -1;
  }

  #add(model: number, cluster: number, count: 1 | -1): void {
    this.#rates[cluster]! += count * this.#rate[model]!;
    this.#works[cluster]! += count * this.#work[model]!;
    this.#memories[cluster]! += count * this.#memory[model]!;
    this.#counts[cluster * this.#levels.length + this.#level[model]!]! += count;
  }
  /** Cost of having a model at a cluster: 0 where it was before, otherwise twice its move cost. */
  #costOf(model: number, cluster: number): number {
    const { disruption } = this.#problem;
    return hasMoved(disruption, model, cluster) ? 2 * disruption!.moveCost[model]! : 0;
  }
}
