/**
 * The work and the waiting that a rate makes for accelerators of a pool, with requests dealt so that their types are
 * busy for the same share of the time (docs/algorithms.md, D9).
 */
import type { Profile, TypedPoolModel } from "./typed-capacity.ts";

/** Share of a model's requests that may find no accelerator in time: the bad rate of A7. */
const WAIT_MAX = 0.01;
/** Standard deviations of a normal distribution above which a hundredth of it lies. */
const SWING = 2.326;
/** Each halves the difference of the types' work on a logarithmic scale. */
const STEPS = 12;

/** A model with requests; shares add up to 1. */
export interface AskedModel extends TypedPoolModel {
  /** Among all models. */
  readonly index: number;
  /** Types that serve it in time. */
  readonly serving: readonly number[];
  /** Time for which a request that runs alone can wait on the slowest of them: offers are planned with that. */
  readonly slack: number;
}

/** Searches ask for the capacities of many pools: arrays are made once for each. */
export class PoolLoad {
  /** With the largest batches, where those take least. */
  readonly most: number;
  readonly #asked: readonly AskedModel[];
  readonly #hasty: readonly AskedModel[];
  /** Models that share types with no others, and those types' accelerators: swings of one type are met by another. */
  readonly #groups: readonly { readonly models: readonly number[]; readonly count: number }[];
  readonly #counts: readonly number[];
  readonly #count: number;
  /** By model and type: the largest batches that leave time to wait for an accelerator. */
  readonly #sizesMax: readonly number[];
  // By model and type, if all requests ran there: time and rate of batches, work, variance of that of an SLO's time.
  readonly #times: Float64Array;
  readonly #rates: Float64Array;
  readonly #works: Float64Array;
  readonly #variances: Float64Array;
  /** By model and type: the share of the requests that runs there. */
  readonly #parts: Float64Array;

  constructor(asked: readonly AskedModel[], counts: readonly number[]) {
    this.#asked = asked;
    this.#hasty = hastyOf(asked);
    this.#counts = counts;
    this.#count = sumOf(counts);
    this.#groups = groupsOf(asked, counts);
    this.#sizesMax = asked.flatMap(({ slo, serving, profiles }) =>
      counts.map((_, type) =>
        serving.includes(type) ? largestBatch(profiles[type]!, slo / (1 + 1 / this.#count)) : 0,
      ),
    );
    const make = (): Float64Array => new Float64Array(this.#sizesMax.length);
    [this.#times, this.#rates, this.#works, this.#variances] = [make(), make(), make(), make()];
    this.#parts = Float64Array.from(this.#sizesMax, (size) => (size > 0 ? 1 : 0));
    this.most = this.#count / sumOf(asked.map(({ share, ...one }) => share * leastPerRequest(one)));
  }

  /**
   * Looks at another rate. @returns whether there is time for it in all but a hundredth of moments, as of a normal law
   */
  isDoneAt(rate: number): boolean {
    this.#gather(rate);
    if (this.#counts.length > 1) this.#deal();
    return (
      this.#counts.every((count, type) => this.#sum(this.#works, type) <= count) &&
      this.#groups.every(({ models, count }) => {
        let [work, variance] = [0, 0];
        for (const i of models)
          for (let at = i * this.#counts.length; at < (i + 1) * this.#counts.length; at++) {
            work += this.#parts[at]! * this.#works[at]!;
            variance += this.#parts[at]! * this.#variances[at]!;
          }
        return work + SWING * Math.sqrt(variance) <= count;
      })
    );
  }

  /** A model that waits for too long at this rate. */
  waiting(): AskedModel | undefined {
    return this.#hasty.find((model) => this.#waitingShare(model) > WAIT_MAX);
  }

  /**
   * Batches as deferral makes them: as large as the first request's deadline allows with requests that arrive evenly,
   * and with a wait of time / count for an accelerator (the staggered batches of A7).
   */
  #gather(rate: number): void {
    const types = this.#counts.length;
    for (let i = 0; i < this.#asked.length; i++) {
      const { share, slo, dispersion, serving, profiles } = this.#asked[i]!;
      const own = rate * share;
      for (const type of serving) {
        const at = i * types + type;
        const { byBatchSize } = profiles[type]!;
        let [size, over] = [1, this.#sizesMax[at]! + 1];
        while (over - size > 1) {
          const middle = (size + over) >> 1;
          if (byBatchSize[middle]! + (middle - 1) / own <= slo) size = middle;
          else over = middle;
        }
        const time = byBatchSize[size]!;
        const work = (own * time) / size;
        this.#times[at] = time;
        this.#rates[at] = own / size;
        this.#works[at] = work;
        this.#variances[at] = (dispersion * work * work) / (own * slo);
      }
    }
  }

  #deal(): void {
    const weights = this.#counts.map(() => 1);
    for (let step = 0; ; step++) {
      for (let i = 0; i < this.#asked.length; i++) {
        const { serving } = this.#asked[i]!;
        let all = 0;
        for (const type of serving) all += weights[type]!;
        for (const type of serving) this.#parts[i * weights.length + type] = weights[type]! / all;
      }
      if (step === STEPS) return;
      for (let type = 0; type < weights.length; type++) {
        const work = this.#sum(this.#works, type);
        if (work > 0) weights[type]! /= Math.sqrt(work / this.#counts[type]!);
      }
    }
  }

  /**
   * Share of a model's requests that find no accelerator in time. One that runs something of length t at a random
   * moment ends it within the slack s but for a share (t − s)/t of the run; all of them are taken as independent.
   */
  #waitingShare({ serving, slack }: AskedModel): number {
    const types = this.#counts.length;
    let share = 1;
    for (const type of serving) {
      const count = this.#counts[type]!;
      let busy = 0;
      for (let at = type; at < this.#parts.length; at += types)
        busy += this.#parts[at]! * this.#rates[at]! * Math.max(0, this.#times[at]! - slack);
      share *= Math.min(1, busy / count) ** count;
    }
    return share;
  }

  /** Sum over what runs on a type. */
  #sum(of: Float64Array, type: number): number {
    let sum = 0;
    for (let at = type; at < of.length; at += this.#counts.length) sum += this.#parts[at]! * of[at]!;
    return sum;
  }
}

/** Models but those that wait for no more runs than another one does, which is served by no other types. */
function hastyOf(asked: readonly AskedModel[]): readonly AskedModel[] {
  const waitsLess = (one: AskedModel, other: AskedModel): boolean =>
    one.slack >= other.slack && other.serving.every((type) => one.serving.includes(type));
  return asked.reduce<AskedModel[]>((kept, one) => {
    if (kept.some((other) => waitsLess(one, other))) return kept;
    return [...kept.filter((other) => !waitsLess(other, one)), one];
  }, []);
}

/** By each set of types that serve some model, and all of them: the models that are served by no others. */
function groupsOf(asked: readonly AskedModel[], counts: readonly number[]) {
  const sets = new Map(asked.map(({ serving }) => [serving.join(), serving]));
  const all = [...counts.keys()];
  return [...sets.values(), ...(sets.has(all.join()) ? [] : [all])].map((types) => ({
    models: [...asked.keys()].filter((i) => asked[i]!.serving.every((type) => types.includes(type))),
    count: sumOf(types.map((type) => counts[type]!)),
  }));
}

/** The largest batch that takes so long at most; at least 1. */
function largestBatch({ byBatchSize, batchSizeMax }: Profile, longest: number): number {
  let [size, over] = [1, batchSizeMax + 1];
  while (over - size > 1) {
    const middle = (size + over) >> 1;
    if (byBatchSize[middle]! <= longest) size = middle;
    else over = middle;
  }
  return size;
}

function leastPerRequest({ serving, profiles }: Pick<AskedModel, "serving" | "profiles">): number {
  let least = Infinity;
  for (const type of serving) {
    const { byBatchSize, batchSizeMax } = profiles[type]!;
    for (let b = 1; b <= batchSizeMax; b++) least = Math.min(least, byBatchSize[b]! / b);
  }
  return least;
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
