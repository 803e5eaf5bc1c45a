/**
 * gpulet's headlines: its Figures 10, 12, 13 and 16 on synthetic profiles (`gpulet-profiles.ts`), four accelerators.
 */
import {
  type FractionModel,
  type Interference,
  WHOLE,
  fitInterference,
  greedyBestFit,
  pack,
  partitionThoroughly,
  predictionError,
  residualAt,
  throughputAt,
} from "@tutti/planning";
import { PartitionOracle } from "@tutti/planning/testing";
import { streamsOf } from "../d6.ts";
import { type MeasureOptions, type Measured, type Planner, badRate, largest, measure } from "./goodput.ts";
import { type Workload, factorsOf, gpuletModel, interferenceSamples, workloads } from "./gpulet-profiles.ts";
import type { RunExecutor, RunItem } from "./node-runtime.ts";

export interface GpuletOptions {
  /** Length of each run. */
  readonly seconds: number;
  readonly seeds: readonly number[];
}
export interface GpuletWorkload {
  readonly workload: string;
  readonly text: string;
  /** Whole accelerators by squishy packing; greedy best-fit; fractions blind to interference; fractions aware of it. */
  readonly whole: Measured;
  readonly greedy: Measured;
  readonly blind: Measured;
  readonly fractions: Measured;
  /** The largest feasible rate by exhaustive search or by the planner. */
  readonly ideal: number;
  /**
   * Bad rates at the rate that `fractions` carries. One is of its plan, and one of a plan for the same rate that is
   * blind to interference.
   */
  readonly badRate: number;
  readonly blindBadRate: number;
}
export interface GpuletHeadlines {
  readonly executors: number;
  readonly coefficients: Interference;
  readonly trainedOn: number;
  readonly testedOn: number;
  readonly error: { readonly p90: number; readonly p95: number };
  readonly workloads: readonly GpuletWorkload[];
  /**
   * Means over the workloads. They are those of `fractions` over whole and greedy, and of the ideal's largest rate; the
   * median over blind, which may carry next to nothing.
   */
  readonly overWhole: number;
  readonly overGreedy: number;
  readonly overBlind: number;
  readonly ofIdeal: number;
}

const EXECUTORS = 4;
/** §4.4: training samples, of 2,500 measurements. */
const TRAINED_ON = 1_750;
const SAMPLE_SEED = 1;

export function gpuletHeadlines(options: GpuletOptions, only?: readonly string[]): GpuletHeadlines {
  const samples = interferenceSamples(SAMPLE_SEED);
  const [training, test] = [samples.slice(0, TRAINED_ON), samples.slice(TRAINED_ON)];
  const { coefficients } = fitInterference(training);
  const measured = workloads()
    .filter(({ name }) => only?.includes(name) ?? true)
    .map((workload) => headline(workload, coefficients, options));
  const mean = (value: (one: GpuletWorkload) => number): number =>
    measured.reduce((sum, one) => sum + value(one), 0) / measured.length;
  return {
    ...{ executors: EXECUTORS, coefficients, trainedOn: training.length, testedOn: test.length },
    error: predictionError(coefficients, test),
    workloads: measured,
    overWhole: mean(({ fractions, whole }) => fractions.carried / whole.carried),
    overGreedy: mean(({ fractions, greedy }) => fractions.carried / greedy.carried),
    overBlind: median(measured.map(({ fractions, blind }) => fractions.carried / blind.carried)),
    ofIdeal: mean(({ fractions, ideal }) => fractions.planned / ideal),
  };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

function headline(
  { name, text, models }: Workload,
  interference: Interference,
  options: GpuletOptions,
): GpuletWorkload {
  const at = (rate: number): FractionModel[] =>
    models.map((model) => ({ ...model, rate: rate / models.length / 1_000 }));
  const run: MeasureOptions = { ...options, judged: "all", factor: factorsOf(models) };
  const planners = {
    whole: (rate: number) => wholePlan(at(rate)),
    greedy: (rate: number) => greedyPlan(at(rate)),
    blind: (rate: number) => fractionPlan(at(rate)),
    fractions: (rate: number) => fractionPlan(at(rate), interference),
  } satisfies Record<string, Planner>;
  const [whole, greedy, blind, fractions] = (["whole", "greedy", "blind", "fractions"] as const).map((way) =>
    measure(planners[way], run),
  ) as [Measured, Measured, Measured, Measured];
  const badAt = (planner: Planner): number =>
    badRate(planner(fractions.plannedFor)!, { ...run, scale: fractions.carried / fractions.plannedFor });
  return {
    ...{ workload: name, text, whole, greedy, blind, fractions },
    ideal: Math.max(fractions.planned, idealRate(at, models.length, interference)),
    badRate: badAt(planners.fractions),
    blindBadRate: badAt(planners.blind),
  };
}

const itemOf = (model: FractionModel, size: number, rate: number, batchSize: number): RunItem => ({
  ...{ model: model.id, slo: model.slo, rate, batchSize },
  latency: (b) => model.latency(b, size),
});

function wholePlan(models: readonly FractionModel[]): RunExecutor[] | undefined {
  const { nodes, unplaced } = pack(streamsOf(models, WHOLE));
  if (unplaced.length > 0 || nodes.length > EXECUTORS) return undefined;
  return nodes.map(({ items }) => [
    {
      size: WHOLE,
      items: items.map(({ stream, rate, batchSize }) => itemOf(models[stream.id]!, WHOLE, rate, batchSize)),
    },
  ]);
}

function greedyPlan(models: readonly FractionModel[]): RunExecutor[] | undefined {
  const executors = greedyBestFit(models);
  if (executors === undefined || executors.length > EXECUTORS) return undefined;
  return executors.map((parts) =>
    parts.map(({ model, rate, size }) => {
      const plan = residualAt(model, size, rate) ?? throughputAt(model, size)!;
      return { size, items: [itemOf(model, size, rate, plan.batchSize)] };
    }),
  );
}

function fractionPlan(models: readonly FractionModel[], interference?: Interference): RunExecutor[] | undefined {
  const found = partitionThoroughly(models, {
    executors: EXECUTORS,
    ...(interference !== undefined && { interference }),
  });
  return found?.executors.map((parts) =>
    parts.map(({ size, plan }) => ({
      size,
      items: (plan?.items ?? []).map(({ model, rate, batchSize }) => itemOf(model, size, rate, batchSize)),
    })),
  );
}

export interface GpuletPair {
  readonly pair: string;
  /** The largest rates that are feasible without interference, in requests per second of both models. */
  readonly whole: number;
  readonly greedy: number;
  readonly fractions: number;
}

/** Figure 5: four pairs of models on two accelerators, by planning alone. It validates `full` of the profiles. */
export function gpuletPairs(): GpuletPair[] {
  return PAIRS.map((names): GpuletPair => {
    const at = (rate: number): FractionModel[] =>
      names.map((name, id) => gpuletModel(name, id, { rate: rate / names.length / 1_000 }));
    const fits = (needed: number | undefined): boolean => (needed ?? Infinity) <= PAIR_EXECUTORS;
    return {
      pair: names.join(" and "),
      whole: largest((rate) => fits(pack(streamsOf(at(rate), WHOLE)).nodes.length)),
      greedy: largest((rate) => fits(greedyBestFit(at(rate))?.length)),
      fractions: largest((rate) => partitionThoroughly(at(rate), { executors: PAIR_EXECUTORS }) !== undefined),
    };
  });
}
const PAIRS = [
  ["ssd", "be"],
  ["res", "vgg"],
  ["goo", "mob"],
  ["nas", "den"],
] as const;
const PAIR_EXECUTORS = 2;

/**
 * Shares into which the exhaustive search may cut a model, by the number of models. Larger mixes have too many
 * combinations.
 */
const sharesOf = (models: number): number => (models > 5 ? 2 : models > 3 ? 5 : models > 2 ? 12 : 24);

function idealRate(at: (rate: number) => FractionModel[], count: number, interference: Interference): number {
  let best = 0;
  for (let shares = 1; shares <= sharesOf(count); shares++) {
    best = largest((rate) => {
      if (rate <= best) return true;
      const oracle = new PartitionOracle(at(rate / shares), { shares, executorsMax: EXECUTORS, interference });
      return oracle.fewest(new Array<number>(count).fill(shares)) <= EXECUTORS;
    });
  }
  return best;
}
