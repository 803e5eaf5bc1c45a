/**
 * Deadline of each stage of a pipeline, so that the whole keeps its SLO (docs/algorithms.md, C5; Nexus §6.2). Deadlines
 * count from the arrival, not from the end of the stage before, so a stage that ends early leaves the time that it
 * saved to the next.
 */
import { type BatchLatency, type Query, type RoomySplit, evenBudgets, splitWithRoom } from "@tutti/planning/split";
import { type PipelineSpec, edgesOf } from "./pipeline-spec.ts";

/** Measured load of a stage. */
export interface StageLoad {
  /** Latency profile of the stage's model; undefined: not profiled yet. */
  readonly latency: BatchLatency | undefined;
  /** Mean number of its requests for each instance of the pipeline: the product of the fan-outs on the way. */
  readonly requests: number;
  /** Time that the stage's `before` function takes, in ms. */
  readonly stepMs: number;
}

export interface Budgets {
  /** Origin of the budgets: `even` also where a profile is missing or no split keeps the SLO. */
  readonly split: "planned" | "even";
  /** Deadline of each stage, by its name: a share of the SLO from the arrival, 0 … 1. */
  readonly ends: ReadonlyMap<string, number>;
  /** Time budget of each stage's model, by the stage's name, in ms. */
  readonly budgetMs: ReadonlyMap<string, number>;
}

/** Functions get half of an SLO at most. Measured in a slow second, they would otherwise leave the models no time. */
const STEPS_SHARE_MOST = 0.5;
/**
 * Splits this much above the fewest executors count as good as the best. Of them the planner takes the one that leaves
 * stages most room for one another's batches: neither C5's model of the cost nor profiles are exact to 2 %. Without it
 * flat profiles lose up to 5 %; steep ones gain nothing from it (docs/results/pipelines).
 */
const TOLERANCE = 0.02;
/** Least request rate of a stage: one that a filter has kept empty so far still costs something. */
const REQUESTS_MIN = 1e-3;

export function planBudgets(
  spec: Pick<PipelineSpec, "stages" | "slo" | "split">,
  measured: { readonly stages: ReadonlyMap<string, StageLoad>; readonly finishMs: number },
): Budgets {
  const sloMs = spec.slo / 1000;
  const longest = longestPath(spec, (name) => measured.stages.get(name)?.stepMs ?? 0) + measured.finishMs;
  const scale = longest > sloMs * STEPS_SHARE_MOST ? (sloMs * STEPS_SHARE_MOST) / longest : 1;
  const bound = sloMs - longest * scale;
  const { split, budgetMs } = divide(spec, measured.stages, bound);
  const stepOf = (name: string): number => (measured.stages.get(name)?.stepMs ?? 0) * scale;
  const next = new Map(spec.stages.map(({ name }) => [name, [] as string[]]));
  for (const [from, to] of edgesOf(spec)) next.get(from)!.push(to);
  const ends = new Map<string, number>();
  const endOf = (name: string): number => {
    const known = ends.get(name);
    if (known !== undefined) return known;
    // A stage gets all the time that its followers do not need.
    const latest = next.get(name)!.map((one) => endOf(one) - budgetMs.get(one)! - stepOf(one));
    const end = Math.min(sloMs - measured.finishMs * scale, ...latest);
    ends.set(name, end);
    return end;
  };
  return { split, budgetMs, ends: new Map(spec.stages.map(({ name }) => [name, endOf(name) / sloMs])) };
}

function divide(
  spec: Pick<PipelineSpec, "stages" | "split">,
  loads: ReadonlyMap<string, StageLoad>,
  bound: number,
): Pick<Budgets, "split" | "budgetMs"> {
  const query: Query = {
    stages: spec.stages.map(({ name }) => ({
      name,
      latency: loads.get(name)?.latency ?? { batchSizes: [], latency: () => Infinity },
      // The rate of one instance: the best split does not depend on the number of instances.
      rate: Math.max(REQUESTS_MIN, loads.get(name)?.requests ?? 1),
    })),
    edges: edgesOf(spec),
    bound,
  };
  if (spec.split === "even") return { split: "even", budgetMs: evenBudgets(query) };
  // Prefer room for two batches, as in packing; otherwise room for one.
  for (const fits of [2, 1]) {
    const planned = splitWithRoom(query, { fits, tolerance: TOLERANCE });
    if (planned !== undefined) return { split: "planned", budgetMs: spread(spec, planned, query, fits) };
  }
  return { split: "even", budgetMs: evenBudgets(query) };
}

/**
 * Spreads the slack of a split over all stages. The split gives each stage the least that its batch size takes and the
 * rest to the last one. With an SLO of seconds and models of milliseconds, a short delay would then refuse requests of
 * an early stage while the last one has time to spare. So the time left over is shared in the proportions of batches
 * and room. The batch sizes stay the same, and with them the cost.
 */
function spread(
  spec: Pick<PipelineSpec, "stages">,
  { stages, room }: RoomySplit,
  query: Query,
  fits: number,
): ReadonlyMap<string, number> {
  const needs = new Map(
    stages.map(({ name, batchSize }, i) => [name, fits * query.stages[i]!.latency.latency(batchSize) + room]),
  );
  const factor = query.bound / longestPath(spec, (name) => needs.get(name)!);
  return new Map([...needs].map(([name, need]) => [name, need * factor]));
}

/** Largest sum of `valueOf` along any path of the graph. */
function longestPath({ stages }: Pick<PipelineSpec, "stages">, valueOf: (stage: string) => number): number {
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  const until = new Map<string, number>();
  const visit = (name: string): number => {
    const known = until.get(name);
    if (known !== undefined) return known;
    const sum = Math.max(0, ...byName.get(name)!.after.map(visit)) + valueOf(name);
    until.set(name, sum);
    return sum;
  };
  return Math.max(...stages.map(({ name }) => visit(name)));
}
