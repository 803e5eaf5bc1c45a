/**
 * Splits a query's latency over its stages, so that all stages together need the fewest executors (Nexus §6.2;
 * docs/algorithms.md, C5). Dynamic programming over a grid of budgets along the series–parallel structure, O(stages ·
 * K²).
 */
import { ceilE, floorE } from "@tutti/profile";
import { SLACK_MS } from "../packing/stream.ts";
import { type Query, type QueryStage, type Structure, structureOf } from "./query.ts";

export interface SplitOptions {
  /** ε in ms. Default: the bound's 200th part, at least 1 ms. */
  readonly step?: number;
  /**
   * φ: how many times a batch's latency must fit into its stage's budget. 2 agrees with packing, where a request may
   * wait for a whole batch; 1 is the paper's formula. Default 2.
   */
  readonly fits?: number;
  /**
   * Further time that every stage needs, in ms: for batches of other stages on the accelerators that it shares with
   * them. Default 0.
   */
  readonly room?: number;
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

/** Executors by budget in steps, and how the parts below share a budget. */
interface Curve {
  /** Executors at index k for a budget of k steps; Infinity where it is too short. */
  readonly executors: Float64Array;
  assign(steps: number, out: Map<QueryStage, number>): void;
}

/**
 * @returns undefined where no split keeps the bound
 * @throws {QueryShapeError} for a graph that is not series–parallel
 */
export function splitLatency(query: Query, options: SplitOptions = {}): LatencySplit | undefined {
  const step = options.step ?? Math.max(1, query.bound / 200);
  const fits = options.fits ?? 2;
  // A partial last step would exceed the bound.
  const steps = floorE(query.bound / step);
  const room = options.room ?? 0;
  const curve = curveOf(structureOf(query), { steps, step, fits, room });
  if (curve.executors[steps] === Infinity) return undefined;
  const budgets = new Map<QueryStage, number>();
  curve.assign(steps, budgets);
  return shared(query, (stage) => budgets.get(stage)! * step, { fits, room });
}

/** A split, and the time in ms that every stage has in it besides its batches. */
export interface RoomySplit extends LatencySplit {
  readonly room: number;
}

/**
 * The split with the most room among those that need about the fewest executors. The paper has no such split: its
 * stages have executors of their own. Where all stages share them, a request waits for batches of other stages too, and
 * that wait is the same for every stage. The optimum gives a stage ever larger batches even for the last hundredth of
 * gain, and leaves the others no room for that wait.
 *
 * @param tolerance - relative excess over the fewest executors that is as good as the fewest: 0.02 is 2 %
 * @returns the split within the tolerance that has the most room, the same for every stage; undefined where no split
 *   keeps the bound
 */
export function splitWithRoom(
  query: Query,
  { tolerance, ...options }: Omit<SplitOptions, "room"> & { readonly tolerance: number },
): RoomySplit | undefined {
  const fewest = splitLatency(query, options);
  if (fewest === undefined) return undefined;
  const executorsMax = fewest.executors * (1 + tolerance);
  let best: RoomySplit = { ...fewest, room: 0 };
  // Executors never fall as the room grows: more room leaves less of every budget for batches.
  let [fits, fails] = [0, query.bound];
  const precision = options.step ?? Math.max(1, query.bound / 200);
  while (fails - fits > precision / 4) {
    const room = (fits + fails) / 2;
    const split = splitLatency(query, { ...options, room });
    if (split === undefined || split.executors > executorsMax) fails = room;
    else [fits, best] = [room, { ...split, room }];
  }
  return best;
}

/**
 * Budgets of the even split, in ms, whether or not a batch fits into them.
 * @throws {QueryShapeError} for a graph that is not series–parallel
 */
export function evenBudgets(query: Pick<Query, "stages" | "edges" | "bound">): ReadonlyMap<string, number> {
  const parts = new Map<QueryStage, number>();
  evenly(structureOf(query), query.bound, parts);
  return new Map([...parts].map(([{ name }, budget]) => [name, budget]));
}

/**
 * The baseline: the bound in equal parts over the stages of the longest path, each stage with the part of its own
 * longest path.
 */
export function splitEvenly(query: Query, options: Pick<SplitOptions, "fits"> = {}): LatencySplit | undefined {
  const parts = new Map<QueryStage, number>();
  evenly(structureOf(query), query.bound, parts);
  return shared(query, (stage) => parts.get(stage)!, { fits: options.fits ?? 2, room: 0 });
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

function shared(
  { stages }: Query,
  budgetOf: (stage: QueryStage) => number,
  needs: Pick<Grid, "fits" | "room">,
): LatencySplit | undefined {
  const shares: StageShare[] = [];
  for (const stage of stages) {
    const budget = budgetOf(stage);
    const best = bestWithin(stage, budget, needs);
    if (best === undefined) return undefined;
    shares.push({ name: stage.name, budget, ...best });
  }
  return { stages: shares, executors: shares.reduce((sum, { executors }) => sum + executors, 0) };
}

/** min R·l(b)/b over the batches that fit; the smallest of equals. */
function bestWithin(
  stage: QueryStage,
  budget: number,
  { fits, room }: Pick<Grid, "fits" | "room">,
): { batchSize: number; executors: number } | undefined {
  let best: { batchSize: number; executors: number } | undefined;
  for (const batchSize of stage.latency.batchSizes) {
    const latency = stage.latency.latency(batchSize);
    if (fits * latency + room > budget + SLACK_MS) continue;
    const executors = (stage.rate * latency) / batchSize;
    if (best === undefined || executors < best.executors) best = { batchSize, executors };
  }
  return best;
}

/** Budgets are `steps` steps of `step` ms at the most; a batch needs `fits` times its latency and `room`. */
interface Grid {
  readonly steps: number;
  readonly step: number;
  readonly fits: number;
  readonly room: number;
}

function curveOf(structure: Structure, grid: Grid): Curve {
  const { steps } = grid;
  if (structure.kind === "stage") return stageCurve(structure.stage, grid);
  const curves = structure.parts.map((part) => curveOf(part, grid));
  if (curves.length === 0) return { executors: new Float64Array(steps + 1), assign: () => undefined };
  return curves.reduce(structure.kind === "series" ? (a, b) => inSeries(a, b, steps) : (a, b) => inParallel(a, b));
}

function stageCurve(stage: QueryStage, { steps, step, fits, room }: Grid): Curve {
  const executors = new Float64Array(steps + 1).fill(Infinity);
  for (const batchSize of stage.latency.batchSizes) {
    const latency = stage.latency.latency(batchSize);
    const from = Math.max(0, ceilE(((fits * latency + room) / step) * (1 - 1e-12)));
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
