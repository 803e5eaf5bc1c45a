/** An assignment under change: sums by cluster, what one proposal would make of them, and what that costs. O(1) a proposal, O(l) an objective. */
import { type Means, type SubClusterProblem, meansOf } from "./problem.ts";

export class Landscape {
  readonly models: number;
  readonly clusterCount: number;
  readonly clusters: Int32Array;
  /** Clusters that break a bound. */
  misfits = 0;
  /** Of the proposal: Δφ of the surrogate Σ ((R_j−R̄)/R̄)² + ((S_j−S̄)/S̄)². */
  change = 0;

  readonly #problem: SubClusterProblem;
  readonly #means: Means;
  readonly #rate: Float64Array;
  readonly #memory: Float64Array;
  /** Place of each model's dynamic memory among the distinct ones, ascending. */
  readonly #level: Int32Array;
  readonly #levels: Float64Array;
  readonly #rates: Float64Array;
  readonly #memories: Float64Array;
  /** By cluster and level: models there, so that the largest is found without looking at models. */
  readonly #counts: Int32Array;
  #cost = 0;
  // The proposal: one model, or two that change places.
  #first = 0;
  #second = -1;
  #from = 0;
  #to = 0;
  #rateMoved = 0;
  #memoryMoved = 0;
  #costAfter = 0;

  constructor(problem: SubClusterProblem, clusters: Int32Array) {
    const { models } = problem;
    this.#problem = problem;
    this.#means = meansOf(problem);
    this.models = models.length;
    this.clusterCount = problem.clusters;
    this.clusters = Int32Array.from(clusters);
    this.#rate = Float64Array.from(models, ({ rate }) => rate);
    this.#memory = Float64Array.from(models, ({ staticMemory }) => staticMemory);
    this.#levels = Float64Array.from(new Set(models.map(({ dynamicMemory }) => dynamicMemory))).sort();
    this.#level = Int32Array.from(models, ({ dynamicMemory }) => this.#levels.indexOf(dynamicMemory));
    this.#rates = new Float64Array(problem.clusters);
    this.#memories = new Float64Array(problem.clusters);
    this.#counts = new Int32Array(problem.clusters * this.#levels.length);
    for (let i = 0; i < this.models; i++) {
      this.#add(i, clusters[i]!, 1);
      this.#cost += this.#costOf(i, clusters[i]!);
    }
    this.misfits = this.#rates.reduce((count, _, j) => count + (this.#fits(j, 0, 0, -1, -1) ? 0 : 1), 0);
  }

  /** ΔR + w·ΔS of the assignment as it is. */
  objective(): number {
    const { rate, memory, weight } = this.#means;
    let [rateGap, memoryGap] = [0, 0];
    for (let j = 0; j < this.clusterCount; j++) {
      const ofRate = Math.abs(this.#rates[j]! - rate);
      const ofMemory = Math.abs(this.#memories[j]! - memory);
      if (ofRate > rateGap) rateGap = ofRate;
      if (ofMemory > memoryGap) memoryGap = ofMemory;
    }
    return rateGap + weight * memoryGap;
  }

  proposeMove(model: number, to: number): void {
    this.#propose(model, -1, this.clusters[model]!, to);
  }
  proposeSwap(a: number, b: number): void {
    this.#propose(a, b, this.clusters[a]!, this.clusters[b]!);
  }
  get isWithinBudget(): boolean {
    return this.#costAfter <= (this.#problem.disruption?.costMax ?? Infinity) + 1e-9;
  }
  /** Would both clusters that the proposal touches keep their bounds? */
  fitsProposed(): boolean {
    const [rate, memory] = [this.#rateMoved, this.#memoryMoved];
    return (
      this.#fits(this.#from, -rate, -memory, this.#second, this.#first) &&
      this.#fits(this.#to, rate, memory, this.#first, this.#second)
    );
  }

  accept(): void {
    const [from, to] = [this.#from, this.#to];
    const before = (this.#fitsNow(from) ? 0 : 1) + (this.#fitsNow(to) ? 0 : 1);
    this.#add(this.#first, from, -1);
    this.#add(this.#first, to, 1);
    this.clusters[this.#first] = to;
    if (this.#second >= 0) {
      this.#add(this.#second, to, -1);
      this.#add(this.#second, from, 1);
      this.clusters[this.#second] = from;
    }
    this.#cost = this.#costAfter;
    this.misfits += (this.#fitsNow(from) ? 0 : 1) + (this.#fitsNow(to) ? 0 : 1) - before;
  }

  #propose(first: number, second: number, from: number, to: number): void {
    this.#first = first;
    this.#second = second;
    this.#from = from;
    this.#to = to;
    this.#rateMoved = this.#rate[first]! - (second < 0 ? 0 : this.#rate[second]!);
    this.#memoryMoved = this.#memory[first]! - (second < 0 ? 0 : this.#memory[second]!);
    const { rate, memory } = this.#means;
    this.change =
      spread(this.#rates[from]!, this.#rates[to]!, this.#rateMoved, rate) +
      spread(this.#memories[from]!, this.#memories[to]!, this.#memoryMoved, memory);
    this.#costAfter = this.#cost + this.#costOf(first, to) - this.#costOf(first, from);
    if (second >= 0) this.#costAfter += this.#costOf(second, from) - this.#costOf(second, to);
  }

  #fitsNow(cluster: number): boolean {
    return this.#fits(cluster, 0, 0, -1, -1);
  }
  /** With so much more, one model that comes and one that goes; −1: none. */
  #fits(cluster: number, rate: number, memory: number, comes: number, goes: number): boolean {
    const { rateMax, memoryMax } = this.#problem;
    if (this.#rates[cluster]! + rate > rateMax * (1 + 1e-12)) return false;
    const base = cluster * this.#levels.length;
    const coming = comes < 0 ? -1 : this.#level[comes]!;
    const going = goes < 0 ? -1 : this.#level[goes]!;
    let level = this.#levels.length - 1;
    while (level > coming && this.#counts[base + level]! - (level === going ? 1 : 0) === 0) level--;
    const largest = level < 0 ? 0 : this.#levels[level]!;
    return this.#memories[cluster]! + memory + largest <= memoryMax * (1 + 1e-12);
  }

  #add(model: number, cluster: number, count: 1 | -1): void {
    this.#rates[cluster]! += count * this.#rate[model]!;
    this.#memories[cluster]! += count * this.#memory[model]!;
    this.#counts[cluster * this.#levels.length + this.#level[model]!]! += count;
  }
  /** What it costs to have a model at a cluster: nothing where it was. */
  #costOf(model: number, cluster: number): number {
    const { disruption } = this.#problem;
    return disruption === undefined || disruption.previous[model] === cluster ? 0 : 2 * disruption.moveCost[model]!;
  }
}

/** Change of Σ ((x−mean)/mean)² when `moved` goes from one to the other. */
function spread(from: number, to: number, moved: number, mean: number): number {
  return mean === 0 ? 0 : (2 * moved * (moved + to - from)) / (mean * mean);
}
