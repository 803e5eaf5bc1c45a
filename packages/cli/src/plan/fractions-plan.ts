/**
 * `tutti plan fractions`: models that share accelerators in space, as JSON with public field names. Rates are in
 * requests per second, times in ms.
 */
import {
  type FractionModel,
  type Interference,
  type Partition,
  type PartitionOptions,
  type PartitionStep,
  type Parts,
  type Stream,
  WHOLE,
  divisionOfFractions,
  factorAt,
  greedyBestFit,
  kneeOf,
  occupancyOf,
  pack,
  partition,
  partitionPortfolio,
  partitionThoroughly,
  requiredSize,
  throughputAt,
  usedOf,
} from "@tutti/planning";
import { ceilE } from "@tutti/profile";
import type { FractionsInput } from "./fractions-input.ts";

export interface FractionsResult {
  readonly kind: "fractions";
  /** Every model is served in full. */
  readonly feasible: boolean;
  /** Accelerators that the plan uses; 0: there is no plan. */
  readonly used: number;
  readonly executorsMax: number;
  /** Whole accelerators that packing needs; null: some model can't be served at all. */
  readonly wholeExecutors: number | null;
  readonly greedyExecutors: number | null;
  /** Coefficients that the plan was made with; null: without interference. */
  readonly interference: Interference | null;
  /** The first part's size by executor, where elastic splitting failed and fixed splits succeeded; null: elastic. */
  readonly splits: readonly number[] | null;
  /**
   * Settings of the attempt that succeeded. `neighbours` says whether parts that one model fills left room for others.
   */
  readonly order: "ascending" | "descending";
  readonly neighbours: "as-they-are" | "expected";
  readonly executors: readonly { readonly executor: number; readonly parts: readonly PartResult[] }[];
  readonly models: readonly ModelResult[];
  /** All accelerators alike, with deferred batches (docs/algorithms.md, D9); null: no model is asked for. */
  readonly division: DivisionResult | null;
}
export interface DivisionResult {
  readonly kind: "whole" | "halves";
  /** Rates in this mix that `executors` accelerators are expected to carry. */
  readonly wholeRps: number;
  readonly halvesRps: number;
  readonly executors: number;
}
export interface PartResult {
  readonly size: number;
  /** Null: the part is empty. */
  readonly dutyCycleMs: number | null;
  readonly saturated: boolean;
  readonly occupancy: number;
  readonly models: readonly {
    readonly model: string;
    readonly rate: number;
    readonly batchSize: number;
    /** Latency of a batch beside the neighbour. */
    readonly batchMs: number;
    /** Slowdown by the neighbour: the batch's latency divided by its latency without it. */
    readonly factor: number;
    readonly worstMs: number;
    readonly sloMs: number;
  }[];
}
export interface ModelResult {
  readonly model: string;
  readonly rate: number;
  /** p_eff, the knee: beyond it, additional size brings diminishing returns. */
  readonly kneeSize: number;
  /** p_req: the least size that carries its rate; null: none does. */
  readonly requiredSize: number | null;
  readonly bySize: readonly { readonly size: number; readonly rate: number; readonly batchSize: number }[];
}

export interface FractionsRun {
  readonly result: FractionsResult;
  /** Steps of the attempt that succeeded; of the last one if none did. */
  readonly steps: readonly PartitionStep[];
}

export function runFractions(input: FractionsInput): FractionsRun {
  const { models, names, sizes, interference, executors: executorsMax } = input;
  const options = { sizes, ...(interference !== undefined && { interference }) };
  const steps: PartitionStep[] = [];
  let found: Partition | undefined;
  let executors = leastExecutors(models, sizes);
  for (; found === undefined && executors <= executorsMax; executors++) {
    const search = searchOver(executors);
    found = search(models, { ...options, executors });
  }
  // Repeat the attempt to record its steps: equal inputs give equal plans.
  const attempt = found?.attempt ?? {};
  partition(models, {
    ...options,
    executors: found?.executors.length ?? executorsMax,
    ...attempt,
    onStep: (step) => steps.push(step),
  });
  const greedy = greedyBestFit(models, sizes);
  const result: FractionsResult = {
    kind: "fractions",
    feasible: found !== undefined,
    used: found === undefined ? 0 : usedOf(found),
    executorsMax,
    wholeExecutors: wholeExecutors(models),
    greedyExecutors: greedy?.length ?? null,
    interference: interference ?? null,
    splits: attempt.splits ?? null,
    order: attempt.order ?? "ascending",
    neighbours: attempt.neighbours ?? "as-they-are",
    executors: (found?.executors ?? []).map((parts, executor) => ({
      executor,
      parts: parts.map((_, place) => partResult(parts, place, input)),
    })),
    models: models.map((model) => modelResult(model, names, sizes)),
    division: divisionResult(input, found === undefined ? executorsMax : usedOf(found)),
  };
  return { result, steps };
}

/**
 * Bounds on the exhaustive searches, since many accelerators have thousands of mixtures of splits. Up to
 * PORTFOLIO_EXECUTORS every mixture of fixed splits is tried. Up to THOROUGH_EXECUTORS each is also tried in the other
 * order and with room for neighbours.
 */
const PORTFOLIO_EXECUTORS = 16;
const THOROUGH_EXECUTORS = 8;
const searchOver = (executors: number) =>
  executors <= THOROUGH_EXECUTORS
    ? partitionThoroughly
    : executors <= PORTFOLIO_EXECUTORS
      ? partitionPortfolio
      : partitionMany;

const FIXED = [WHOLE, 80, 60, 50];
const QUARTERS = 4;

/** Tries mixtures of two fixed splits only, in quarters. One accelerator more or less is a small part of many. */
function partitionMany(models: readonly FractionModel[], options: PartitionOptions): Partition | undefined {
  const elastic = partition(models, options);
  if (elastic !== undefined) return elastic;
  for (const splits of mixtures(options.executors)) {
    const found = partition(models, { ...options, splits });
    if (found !== undefined) return found;
  }
  return undefined;
}

function* mixtures(executors: number): Generator<number[]> {
  for (const a of FIXED) yield new Array<number>(executors).fill(a);
  for (const a of FIXED) {
    for (const b of FIXED) {
      if (a === b) continue;
      for (let quarter = 1; quarter < QUARTERS; quarter++) {
        const ofA = Math.round((executors * quarter) / QUARTERS);
        yield Array.from({ length: executors }, (_, i) => (i < ofA ? a : b));
      }
    }
  }
}

/**
 * A lower bound on accelerators: every model runs without a pause on the size with the most throughput per share.
 * Infinity: some model can't be served.
 */
function leastExecutors(models: readonly FractionModel[], sizes: readonly number[]): number {
  const work = models.reduce((sum, model) => {
    const best = Math.max(...sizes.map((size) => ((throughputAt(model, size)?.rate ?? 0) * WHOLE) / size));
    return model.rate > 0 ? sum + model.rate / best : sum;
  }, 0);
  return Math.max(1, ceilE(work));
}

function partResult(parts: Parts, place: number, { names, interference }: FractionsInput): PartResult {
  const { size, plan } = parts[place]!;
  if (plan === undefined) return { size, dutyCycleMs: null, saturated: false, occupancy: 0, models: [] };
  const factorOf = (model: FractionModel): number => factorAt(model, parts, place, interference);
  return {
    ...{ size, dutyCycleMs: plan.dutyCycle, saturated: plan.isSaturated },
    occupancy: occupancyOf(plan, size, factorOf),
    models: plan.items.map(({ model, rate, batchSize }) => {
      const factor = factorOf(model);
      const batchMs = model.latency(batchSize, size) * factor;
      const worstMs = batchMs + (plan.isSaturated ? batchMs : plan.dutyCycle);
      return { model: names[model.id]!, rate: 1000 * rate, batchSize, batchMs, factor, worstMs, sloMs: model.slo };
    }),
  };
}

function modelResult(model: FractionModel, names: readonly string[], sizes: readonly number[]): ModelResult {
  const required = requiredSize(model, model.rate, sizes);
  return {
    model: names[model.id]!,
    rate: 1000 * model.rate,
    kneeSize: kneeOf(model, sizes),
    requiredSize: required === Infinity ? null : required,
    bySize: sizes.map((size) => {
      const most = throughputAt(model, size);
      return { size, rate: 1000 * (most?.rate ?? 0), batchSize: most?.batchSize ?? 0 };
    }),
  };
}

function divisionResult({ models, sizes, interference }: FractionsInput, executors: number): DivisionResult | null {
  if (!sizes.includes(WHOLE / 2) || models.every(({ rate }) => rate === 0)) return null;
  const { kind, whole, halves } = divisionOfFractions(models, executors, { interference });
  return { kind, wholeRps: 1000 * whole.carried, halvesRps: 1000 * halves.carried, executors };
}

/** The number of whole accelerators that packing (C) needs, for comparison. */
function wholeExecutors(models: readonly FractionModel[]): number | null {
  const streams = models.map(({ id, slo, rate, batchMax, latency }): Stream => {
    const batchSizes = Array.from({ length: batchMax }, (_, i) => i + 1);
    return { id, slo, rate, latency: { batchSizes, latency: (b) => (b > batchMax ? Infinity : latency(b, WHOLE)) } };
  });
  const { nodes, unplaced } = pack(streams);
  return unplaced.length > 0 ? null : nodes.length;
}
