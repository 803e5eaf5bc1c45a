/**
 * Elastic partitioning: places models on parts of accelerators. Accelerators are split where that is efficient, and
 * models share the parts that are left in time (gpulet, algorithm 1; docs/algorithms.md, D3).
 *
 *   PARTITION-1. The parts of an executor sum to 100 and are at most two. On success the served rates of a model sum to
 *                its rate.
 *   PARTITION-2. A trial that fails leaves no trace.
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
import { type Interference, factorBeside } from "./interference.ts";
import { type FractionModel, SIZES, WHOLE, kneeOf, requiredSize } from "./model.ts";
import type { OnPartitionStep } from "./steps.ts";

/** Settings of one attempt. */
export interface PartitionAttempt {
  /** Fixed splits: the first part's size for each executor. */
  readonly splits?: readonly number[];
  /**
   * Load of a part that one model fills while it has no neighbour. Default: as much as it can carry then, so that
   * hardly any neighbour is bearable later. `expected`: as much as it could carry beside any other of these models.
   */
  readonly neighbours?: "as-they-are" | "expected";
  /** Order in which models are placed: by rate · SLO, ascending (default, as in gpulet) or descending. */
  readonly order?: "ascending" | "descending";
}

export interface PartitionOptions extends PartitionAttempt {
  readonly executors: number;
  /** Default: neighbours don't interfere. */
  readonly interference?: Interference;
  /** P. Default: 20, 40, 50, 60, 80, 100. */
  readonly sizes?: readonly number[];
  /**
   * Called with each step, which says why a model has its part. A portfolio calls it for every attempt, one after the
   * other; see `Partition.attempt`.
   */
  readonly onStep?: OnPartitionStep;
}

export interface Partition {
  /** Parts by executor. */
  readonly executors: readonly Parts[];
  /**
   * Settings of the attempt: `partition` with them gives the same result. Without splits, executors were split as
   * needed.
   */
  readonly attempt: PartitionAttempt;
}

/** Executors that have a model. Partitioning prefers low ids, so those that have none come last. */
export const usedOf = ({ executors }: Partition): number =>
  executors.filter((parts) => parts.some(({ plan }) => plan !== undefined)).length;

/** Most models that take turns on one part. */
const MODELS_MAX = 3;
const NOTHING = 1e-9;

/** @returns undefined where the rate of some model can't be served completely */
export function partition(models: readonly FractionModel[], options: PartitionOptions): Partition | undefined {
  const pool = new Pool(models, options);
  const order = models
    .filter(({ rate }) => rate > 0)
    .toSorted((a, b) => (options.order === "descending" ? -1 : 1) * (a.rate * a.slo - b.rate * b.slo) || a.id - b.id);
  for (const model of order) {
    for (let rest = model.rate; rest > NOTHING * model.rate;) {
      const served = pool.place(model, rest);
      if (served === 0) return undefined;
      rest -= served;
    }
  }
  return { executors: pool.executors, attempt: attemptOf(options) };
}

const attemptOf = ({ splits, neighbours, order }: PartitionAttempt): PartitionAttempt => ({
  ...(splits !== undefined && { splits }),
  ...(neighbours !== undefined && { neighbours }),
  ...(order !== undefined && { order }),
});

/** Splits that are tried where elastic partitioning fails. */
const FIXED = [WHOLE, 80, 60, 50] as const;

/** Tries elastic partitioning, and on failure every multiset of fixed splits. */
export function partitionPortfolio(models: readonly FractionModel[], options: PartitionOptions): Partition | undefined {
  const elastic = partition(models, options);
  if (elastic !== undefined) return elastic;
  for (const splits of multisets(options.executors)) {
    const found = partition(models, { ...options, splits });
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Attempts that follow where the default portfolio fails. */
const AGAIN: readonly PartitionAttempt[] = [
  { neighbours: "expected" },
  { order: "descending" },
  { order: "descending", neighbours: "expected" },
];

/**
 * Tries the portfolio, and on failure again with room for neighbours, and in the other order. At rates that fill
 * accelerators a part of gpulet's algorithm runs at its SLO's edge, so that hardly any neighbour is bearable later.
 */
export function partitionThoroughly(
  models: readonly FractionModel[],
  options: Omit<PartitionOptions, keyof PartitionAttempt>,
): Partition | undefined {
  for (const attempt of [{}, ...AGAIN]) {
    const found = partitionPortfolio(models, { ...options, ...attempt });
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

/**
 * Cached values of one model: portfolios and sweeps partition many mixes of the same models and ask for the same
 * values.
 */
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
  readonly #onStep: OnPartitionStep | undefined;
  readonly #known: WeakMap<FractionModel, Known>;
  /** Models that may become neighbours; empty where neighbours count only once they are placed. */
  readonly #expected: readonly FractionModel[];

  constructor(models: readonly FractionModel[], options: PartitionOptions) {
    const { executors, interference, sizes = SIZES, splits, onStep, neighbours } = options;
    this.#expected = neighbours === "expected" ? models : [];
    this.#interference = interference;
    this.#sizes = sizes;
    this.#isFixed = splits !== undefined;
    this.#onStep = onStep;
    this.#known = knownAt(sizes);
    this.executors = Array.from({ length: executors }, (_, e) => emptyParts(splits?.[e] ?? WHOLE));
  }

  /** Serves a part of a model's rate (one round). @returns the rate that it serves; 0 where there is no place */
  place(model: FractionModel, rate: number): number {
    const known = this.#knownOf(model);
    let required = known.required.get(rate);
    if (required === undefined) {
      required = requiredSize(model, rate, this.#sizes);
      if (known.required.size < REQUIRED_MAX) known.required.set(rate, required);
    }
    if (required !== Infinity && this.#shareInTime(model, rate, required)) return rate;
    const served = this.#takePart(model, rate, { knee: known.knee, required });
    if (served === 0) this.#onStep?.({ kind: "failed", model, rate: 0, rest: rate, required, knee: known.knee });
    return served;
  }

  #knownOf(model: FractionModel): Known {
    let known = this.#known.get(model);
    if (known === undefined) {
      known = { knee: kneeOf(model, this.#sizes), required: new Map() };
      this.#known.set(model, known);
    }
    return known;
  }

  /** Step 2: adds the model to the part that it fills most, among the parts that are neither empty nor saturated. */
  #shareInTime(model: FractionModel, rate: number, required: number): boolean {
    let [best, fullest]: [{ executor: number; place: number; parts: Parts } | undefined, number] = [undefined, 0];
    let choices = 0;
    for (const [executor, parts] of this.executors.entries()) {
      for (const [place, { size, plan }] of parts.entries()) {
        if (plan === undefined || plan.isSaturated || plan.items.length >= MODELS_MAX) continue;
        if (plan.items.some((item) => item.model.id === model.id)) continue;
        const factorOf = this.#factorOf(parts, place);
        const together = planWith(plan, size, { model, rate }, factorOf);
        if (together === undefined) continue;
        const occupancy = occupancyOf(together, size, factorOf);
        choices++;
        if (best !== undefined && occupancy <= fullest + 1e-12) continue;
        const trial = this.#settled(replaced(parts, place, together), place);
        if (trial !== undefined) [best, fullest] = [{ executor, place, parts: trial }, occupancy];
      }
    }
    if (best === undefined) return false;
    const { executor, place, parts } = best;
    if (this.#onStep !== undefined) {
      const placed = { ...this.#placed(model, executor, place, parts), rate, rest: rate, required };
      this.#onStep({ ...placed, kind: "shared", occupancy: fullest, choices });
    }
    this.executors[executor] = parts;
    return true;
  }

  /** Step 3: gives the model an empty part. */
  #takePart(model: FractionModel, rate: number, { knee, required }: { knee: number; required: number }): number {
    let refused = 0;
    for (const { executor, parts, place } of this.#candidates(Math.min(knee, required))) {
      const expected = this.#expectedFactor(model, parts, place);
      const plan = planFor(model, parts[place]!.size, rate, this.#factorOf(parts, place), expected);
      const trial = plan === undefined ? undefined : this.#settled(replaced(parts, place, plan), place);
      if (plan === undefined || trial === undefined) {
        refused++;
        continue;
      }
      const served = plan.items[0]!.rate;
      if (this.#onStep !== undefined) {
        const isSplit = this.executors[executor]!.length < trial.length;
        const placed = { ...this.#placed(model, executor, place, trial), rate: served, rest: rate, required };
        this.#onStep({ ...placed, kind: "part", knee, isSplit, refused });
      }
      this.executors[executor] = trial;
      return served;
    }
    return 0;
  }

  /** The fields of a step for a trial that is about to be accepted. */
  #placed(model: FractionModel, executor: number, place: number, parts: Parts) {
    const { size, plan } = parts[place]!;
    const other = 1 - place;
    const before = this.executors[executor]![other]?.plan;
    const after = parts[other]?.plan;
    const hasRefitted = before?.items.some(({ batchSize }, i) => batchSize !== after?.items[i]?.batchSize) ?? false;
    return { model, executor, place, size, plan: plan!, factor: this.#factorOf(parts, place)(model), hasRefitted };
  }

  /**
   * Empty parts: those large enough, the smallest first, then the others, the largest first. A whole executor is tried
   * at each split.
   */
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

  /** Step 4: refits the executor's other parts to their new factors; undefined where one can't be refitted. */
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

  #expectedFactor(model: FractionModel, parts: Parts, place: number): number {
    const other = parts[1 - place];
    if (this.#interference === undefined || other === undefined || other.plan !== undefined) return 1;
    const own = { model, size: parts[place]!.size };
    let most = 1;
    for (const neighbour of this.#expected) {
      if (neighbour.id === model.id) continue;
      most = Math.max(most, factorBeside(this.#interference, own, { model: neighbour, size: other.size }));
    }
    return most;
  }
  #factorOf(parts: Parts, place: number): FactorOf {
    return (model) => factorAt(model, parts, place, this.#interference);
  }
}

/** Cached values by list of sizes, for as long as the models live. */
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
