/**
 * Elastic partitioning: models onto parts of accelerators, split where that is efficient, shared in time where parts are left (gpulet, algorithm 1;
 * docs/algorithms.md, D3).
 *
 *   EP1. The parts of an executor sum to 100 and are at most two. On success what is served sums to each model's rate.
 *   EP2. A trial that fails leaves no trace.
 */
import {
  type FactorOf,
  type GpuletPlan,
  type Parts,
  factorAt,
  occupancyOf,
  planFor,
  planWith,
  refitted,
} from "./gpulet.ts";
import type { Interference } from "./interference.ts";
import { type FractionModel, SIZES, WHOLE, kneeOf, requiredSize } from "./model.ts";

export interface PartitionOptions {
  readonly executors: number;
  /** Left out: neighbours don't matter. */
  readonly interference?: Interference;
  /** P. Default: 20, 40, 50, 60, 80, 100. */
  readonly sizes?: readonly number[];
  /** Splits that are given and stay: the first part's size for each executor. */
  readonly splits?: readonly number[];
}

export interface Partition {
  /** By executor. */
  readonly executors: readonly Parts[];
}

/** On one part at most so many models take turns. */
const MODELS_MAX = 3;
const NOTHING = 1e-9;

/** @returns undefined where some model finds no place for all of its rate */
export function partition(models: readonly FractionModel[], options: PartitionOptions): Partition | undefined {
  const pool = new Pool(options);
  const order = models
    .filter(({ rate }) => rate > 0)
    .toSorted((a, b) => a.rate * a.slo - b.rate * b.slo || a.id - b.id);
  for (const model of order) {
    for (let rest = model.rate; rest > NOTHING * model.rate;) {
      const served = pool.place(model, rest);
      if (served === 0) return undefined;
      rest -= served;
    }
  }
  return { executors: pool.executors };
}

/** Splits tried where elastic partitioning fails. */
const FIXED = [WHOLE, 80, 60, 50] as const;

/**
 * On failure every multiset of fixed splits, and fewer executors: so that what goes on N goes on N + 1 (D7).
 *
 * @param tryFewer - also N − 1 executors and so on
 */
export function partitionPortfolio(models: readonly FractionModel[], options: PartitionOptions): Partition | undefined {
  const elastic = partition(models, options);
  if (elastic !== undefined) return elastic;
  for (const splits of multisets(options.executors)) {
    const found = partition(models, { ...options, splits });
    if (found !== undefined) return found;
  }
  return undefined;
}

function* multisets(count: number, from = 0): Generator<number[]> {
  if (count === 0) {
    yield [];
    return;
  }
  for (let i = from; i < FIXED.length; i++) for (const rest of multisets(count - 1, i)) yield [FIXED[i]!, ...rest];
}

/** Partitions of many mixes of the same models, as portfolios and sweeps are, ask for the same over and over. */
interface Known {
  readonly knee: number;
  readonly required: Map<number, number>;
}
const REQUIRED_MAX = 256;

class Pool {
  readonly executors: Parts[];
  readonly #interference: Interference | undefined;
  readonly #sizes: readonly number[];
  readonly #isFixed: boolean;
  readonly #known: WeakMap<FractionModel, Known>;

  constructor({ executors, interference, sizes = SIZES, splits }: PartitionOptions) {
    this.#interference = interference;
    this.#sizes = sizes;
    this.#isFixed = splits !== undefined;
    this.#known = knownAt(sizes);
    this.executors = Array.from({ length: executors }, (_, e) => emptyParts(splits?.[e] ?? WHOLE));
  }

  /** One round. @returns the rate that it serves; 0 where there is no place */
  place(model: FractionModel, rate: number): number {
    const known = this.#knownOf(model);
    let required = known.required.get(rate);
    if (required === undefined) {
      required = requiredSize(model, rate, this.#sizes);
      if (known.required.size < REQUIRED_MAX) known.required.set(rate, required);
    }
    if (required !== Infinity && this.#shareInTime(model, rate)) return rate;
    return this.#takePart(model, rate, Math.min(known.knee, required));
  }

  #knownOf(model: FractionModel): Known {
    let known = this.#known.get(model);
    if (known === undefined) {
      known = { knee: kneeOf(model, this.#sizes), required: new Map() };
      this.#known.set(model, known);
    }
    return known;
  }

  /** Step 2: the part that it fills most, among those that are neither empty nor saturated. */
  #shareInTime(model: FractionModel, rate: number): boolean {
    let [best, fullest]: [{ executor: number; parts: Parts } | undefined, number] = [undefined, 0];
    for (const [executor, parts] of this.executors.entries()) {
      for (const [place, { size, plan }] of parts.entries()) {
        if (plan === undefined || plan.isSaturated || plan.items.length >= MODELS_MAX) continue;
        if (plan.items.some((item) => item.model.id === model.id)) continue;
        const factorOf = this.#factorOf(parts, place);
        const together = planWith(plan, size, { model, rate }, factorOf);
        if (together === undefined) continue;
        const occupancy = occupancyOf(together, size, factorOf);
        if (best !== undefined && occupancy <= fullest + 1e-12) continue;
        const trial = this.#settled(replaced(parts, place, together), place);
        if (trial !== undefined) [best, fullest] = [{ executor, parts: trial }, occupancy];
      }
    }
    if (best === undefined) return false;
    this.executors[best.executor] = best.parts;
    return true;
  }

  /** Step 3. */
  #takePart(model: FractionModel, rate: number, ideal: number): number {
    for (const { executor, parts, place } of this.#candidates(ideal)) {
      const plan = planFor(model, parts[place]!.size, rate, this.#factorOf(parts, place));
      if (plan === undefined) continue;
      const trial = this.#settled(replaced(parts, place, plan), place);
      if (trial === undefined) continue;
      this.executors[executor] = trial;
      return plan.items[0]!.rate;
    }
    return 0;
  }

  /** Empty parts: those large enough, the smallest first, then the others, the largest first. A whole executor is tried at each split. */
  *#candidates(ideal: number): Generator<{ executor: number; parts: Parts; place: number }> {
    const empty = this.executors.flatMap((parts, executor) =>
      parts.flatMap(({ size, plan }, place) => (plan === undefined ? [{ executor, parts, place, size }] : [])),
    );
    const large = empty
      .filter(({ size }) => size >= ideal)
      .toSorted((a, b) => a.size - b.size || a.executor - b.executor);
    const small = empty
      .filter(({ size }) => size < ideal)
      .toSorted((a, b) => b.size - a.size || a.executor - b.executor);
    for (const one of [...large, ...small]) {
      if (one.size !== WHOLE || this.#isFixed) yield one;
      else
        for (const size of this.#sizes)
          if (size >= ideal) yield { executor: one.executor, parts: emptyParts(size), place: 0 };
    }
  }

  /** Step 4: every part of the executor under its new factors; undefined where one can't be refitted. */
  #settled(parts: Parts, changed: number): Parts | undefined {
    let settled = parts;
    for (const [place, { size, plan }] of parts.entries()) {
      if (plan === undefined || place === changed) continue;
      const again = refitted(plan, size, this.#factorOf(parts, place));
      if (again === undefined) return undefined;
      settled = replaced(settled, place, again);
    }
    return settled;
  }

  #factorOf(parts: Parts, place: number): FactorOf {
    return (model) => factorAt(model, parts, place, this.#interference);
  }
}

/** By sizes: of the same models, for as long as they live. */
const knownBySizes = new WeakMap<readonly number[], WeakMap<FractionModel, Known>>();
function knownAt(sizes: readonly number[]): WeakMap<FractionModel, Known> {
  let known = knownBySizes.get(sizes);
  if (known === undefined) knownBySizes.set(sizes, (known = new WeakMap<FractionModel, Known>()));
  return known;
}

const emptyParts = (size: number): Parts =>
  size === WHOLE
    ? [{ size, plan: undefined }]
    : [
        { size, plan: undefined },
        { size: WHOLE - size, plan: undefined },
      ];

function replaced(parts: Parts, place: number, plan: GpuletPlan): Parts {
  return parts.map((part, i) => (i === place ? { ...part, plan } : part)) as unknown as Parts;
}
