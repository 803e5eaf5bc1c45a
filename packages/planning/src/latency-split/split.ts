/**
 * How much of a query's latency each stage may take, so that all stages together need the fewest executors (Nexus §6.2; docs/algorithms.md, C5). Dynamic
 * programming over a grid of budgets along the series–parallel structure, O(stages · K²).
 */
import { ceilE, floorE } from "@tutti/profile";
import { SLACK_MS } from "../packing/stream.ts";
import { type Query, type QueryStage, type Structure, structureOf } from "./query.ts";

export interface SplitOptions {
  /** ε in ms. Default: the bound's 200th part, at least 1 ms. */
  readonly step?: number;
  /**
   * φ: how many times a batch's latency must fit into its stage's budget. 2 agrees with packing, where a request may wait for a whole batch; 1 is
   * the paper's formula. Default 2.
   */
  readonly fits?: number;
}

export interface StageShare {
  readonly name: string;
  /** In ms. */
  readonly budget: number;
  readonly batchSize: number;
  /** rate · l(b)/b. */
  readonly executors: number;
}

export interface LatencySplit {
  /** In the order of the query's stages. */
  readonly stages: readonly StageShare[];
  readonly executors: number;
}

/** Executors by budget in steps, and how a budget is shared below. */
interface Curve {
  /** At index k for a budget of k steps; Infinity where it is too short. */
  readonly executors: Float64Array;
  assign(steps: number, out: Map<QueryStage, number>): void;
}

/** @returns undefined where no split keeps the bound. @throws {QueryShapeError} for a graph that is not series–parallel */
export function splitLatency(query: Query, options: SplitOptions = {}): LatencySplit | undefined {
  const step = options.step ?? Math.max(1, query.bound / 200);
  const fits = options.fits ?? 2;
  // A last step that is not whole would promise more than the bound.
  const steps = floorE(query.bound / step);
  const curve = curveOf(structureOf(query), steps, step, fits);
  if (curve.executors[steps] === Infinity) return undefined;
  const budgets = new Map<QueryStage, number>();
  curve.assign(steps, budgets);
  return shared(query, (stage) => budgets.get(stage)! * step, fits);
}

/** The baseline: the bound in equal parts over the stages of the longest path, each stage with the part of its own longest path. */
export function splitEvenly(query: Query, options: Pick<SplitOptions, "fits"> = {}): LatencySplit | undefined {
  const parts = new Map<QueryStage, number>();
  evenly(structureOf(query), query.bound, parts);
  return shared(query, (stage) => parts.get(stage)!, options.fits ?? 2);
}

function evenly(structure: Structure, bound: number, out: Map<QueryStage, number>): void {
  if (structure.kind === "stage") out.set(structure.stage, bound);
  else if (structure.kind === "parallel") for (const part of structure.parts) evenly(part, bound, out);
  else for (const part of structure.parts) evenly(part, (bound * depthOf(part)) / depthOf(structure), out);
}
const depthOf = (structure: Structure): number =>
  structure.kind === "stage"
    ? 1
    : structure.kind === "series"
      ? structure.parts.reduce((sum, part) => sum + depthOf(part), 0)
      : Math.max(0, ...structure.parts.map(depthOf));

function shared({ stages }: Query, budgetOf: (stage: QueryStage) => number, fits: number): LatencySplit | undefined {
  const shares: StageShare[] = [];
  for (const stage of stages) {
    const budget = budgetOf(stage);
    const best = bestWithin(stage, budget, fits);
    if (best === undefined) return undefined;
    shares.push({ name: stage.name, budget, ...best });
  }
  return { stages: shares, executors: shares.reduce((sum, { executors }) => sum + executors, 0) };
}

/** min R·l(b)/b over the batches that fit; the smallest of equals. */
function bestWithin(
  stage: QueryStage,
  budget: number,
  fits: number,
): { batchSize: number; executors: number } | undefined {
  let best: { batchSize: number; executors: number } | undefined;
  for (const batchSize of stage.latency.batchSizes) {
    const latency = stage.latency.latency(batchSize);
    if (fits * latency > budget + SLACK_MS) continue;
    const executors = (stage.rate * latency) / batchSize;
    if (best === undefined || executors < best.executors) best = { batchSize, executors };
  }
  return best;
}

function curveOf(structure: Structure, steps: number, step: number, fits: number): Curve {
  if (structure.kind === "stage") return stageCurve(structure.stage, steps, step, fits);
  const curves = structure.parts.map((part) => curveOf(part, steps, step, fits));
  if (curves.length === 0) return { executors: new Float64Array(steps + 1), assign: () => undefined };
  return curves.reduce(structure.kind === "series" ? (a, b) => inSeries(a, b, steps) : (a, b) => inParallel(a, b));
}

function stageCurve(stage: QueryStage, steps: number, step: number, fits: number): Curve {
  const executors = new Float64Array(steps + 1).fill(Infinity);
  for (const batchSize of stage.latency.batchSizes) {
    const latency = stage.latency.latency(batchSize);
    const from = Math.max(0, ceilE(((fits * latency) / step) * (1 - 1e-12)));
    if (from <= steps) executors[from] = Math.min(executors[from]!, (stage.rate * latency) / batchSize);
  }
  for (let k = 1; k <= steps; k++) executors[k] = Math.min(executors[k]!, executors[k - 1]!);
  return { executors, assign: (k, out) => void out.set(stage, k) };
}

/** (f ⊕ g)(t) = min over k ≤ t of f(k) + g(t−k). */
function inSeries(first: Curve, second: Curve, steps: number): Curve {
  const executors = new Float64Array(steps + 1).fill(Infinity);
  const taken = new Int32Array(steps + 1);
  for (let t = 0; t <= steps; t++) {
    for (let k = 0; k <= t; k++) {
      const total = first.executors[k]! + second.executors[t - k]!;
      if (total >= executors[t]!) continue;
      executors[t] = total;
      taken[t] = k;
    }
  }
  return {
    executors,
    assign: (t, out) => {
      first.assign(taken[t]!, out);
      second.assign(t - taken[t]!, out);
    },
  };
}

/** All branches have the same budget. */
const inParallel = (first: Curve, second: Curve): Curve => ({
  executors: first.executors.map((value, k) => value + second.executors[k]!),
  assign: (k, out) => {
    first.assign(k, out);
    second.assign(k, out);
  },
});
