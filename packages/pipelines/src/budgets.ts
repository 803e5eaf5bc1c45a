/**
 * By when each stage of a pipeline has to have ended, so that the whole keeps its SLO (docs/algorithms.md, C5; Nexus
 * §6.2). A stage that ends early leaves what it saved to the next: deadlines count from the arrival, not from the end
 * of the stage before.
 */
import { type BatchLatency, type Query, type RoomySplit, evenBudgets, splitWithRoom } from "@tutti/planning/split";
import { type PipelineSpec, edgesOf } from "./pipeline-spec.ts";

/** What was measured of a stage. */
export interface StageLoad {
  /** Its model's; undefined: not profiled yet. */
  readonly latency: BatchLatency | undefined;
  /** Mean of its requests for each instance of the pipeline: the product of the fan-outs on the way. */
  readonly requests: number;
  /** What its `before` takes, in ms. */
  readonly stepMs: number;
}

export interface Budgets {
  /** How they came about: `even` also where a profile is missing or no split keeps the SLO. */
  readonly split: "planned" | "even";
  /** When a stage has to have ended, by its name: a share of the SLO from the arrival, 0 … 1. */
  readonly ends: ReadonlyMap<string, number>;
  /** What a stage's model has, in ms. */
  readonly budgetMs: ReadonlyMap<string, number>;
}

/**
 * Functions are given half of an SLO at most: measured on a bad second, they would otherwise leave the models nothing.
 */
const STEPS_SHARE_MOST = 0.5;
/**
 * Splits this much above the fewest executors count as good as the best, and of them the one that leaves stages most
 * room for one another's batches is taken: C5's model of the cost is not that exact, nor are profiles. Flat profiles
 * lose up to 5 % without it, steep ones nothing with it (docs/results/pipelines).
 */
const TOLERANCE = 0.02;
/** A stage that a filter has kept empty so far is not free. */
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
    // Whatever its followers don't need is its own.
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
      // Of one instance: the split that is best doesn't change with how many there are.
      rate: Math.max(REQUESTS_MIN, loads.get(name)?.requests ?? 1),
    })),
    edges: edgesOf(spec),
    bound,
  };
  if (spec.split === "even") return { split: "even", budgetMs: evenBudgets(query) };
  // Room for two batches where there is any, as packing wants it; else for one.
  for (const fits of [2, 1]) {
    const planned = splitWithRoom(query, { fits, tolerance: TOLERANCE });
    if (planned !== undefined) return { split: "planned", budgetMs: spread(spec, planned, query, fits) };
  }
  return { split: "even", budgetMs: evenBudgets(query) };
}

/**
 * The split gives each stage the least that its batch size takes and the rest to the last one: with an SLO of seconds
 * and models of milliseconds, an early stage would be refused for a hiccup while the last has all the time in the
 * world. So what batches and room leave over is shared as they share the rest. The batch sizes stay, and with them the
 * cost.
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

/** Of the path on which the most comes together. */
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
