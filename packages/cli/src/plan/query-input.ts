/**
 * Input of `tutti plan query`, converted to the planner's query. Times are in ms, rates in requests per ms, as in
 * docs/algorithms.md, C.
 */
import { type Query, type QueryStage, QueryShapeError, structureOf } from "@tutti/planning";
import { millis } from "@tutti/units";
import { type Problem, type LatencyEntry, profileOf } from "@tutti/sim-report/scenarios";
import { latencyOf } from "./pack-input.ts";
import { checkNames, readPlanFile } from "./plan-file.ts";

/** The document after the schema check. */
interface QueryDocument {
  readonly sloMs: number;
  readonly rate: number;
  readonly stepMs?: number;
  readonly fits?: 1 | 2;
  readonly between?: "interpolate" | "pad-up";
  readonly stages: readonly StageEntry[];
}
interface StageEntry extends Omit<LatencyEntry, "between"> {
  readonly name: string;
  readonly after?: readonly string[];
  readonly requests?: number;
}

export interface QueryInput {
  readonly query: Query;
  /** Rate of the root stage, per second. */
  readonly rate: number;
  readonly stepMs: number | undefined;
  readonly fits: 1 | 2;
}

/** @throws {CommandError} as `readPlanFile`, and for a graph over which no time can be divided */
export async function readQueryInput(path: string, settings?: readonly string[]): Promise<QueryInput> {
  const { document, giveUpOn } = await readPlanFile<QueryDocument>("query", path, settings);
  const { sloMs, rate, stepMs, fits = 2, between } = document;
  const problems: Problem[] = [];
  checkNames("stages", document.stages, problems);
  if (stepMs !== undefined && (stepMs > sloMs || sloMs / stepMs > 10_000))
    problems.push({ path: ["stepMs"], text: `stepMs of ${stepMs}: between ${sloMs / 10_000} and ${sloMs}` });
  const stages = document.stages.map((entry, i): QueryStage | undefined => {
    const given = { ...entry, ...(between !== undefined && { between }) };
    const table = profileOf(given, millis(sloMs), ["stages", i], problems);
    if (table === undefined) return undefined;
    return { name: entry.name, rate: ((entry.requests ?? 1) * rate) / 1000, latency: latencyOf(table, given) };
  });
  giveUpOn(problems);
  const edges = document.stages.flatMap(({ name, after = [] }) => after.map((from) => [from, name] as const));
  const query = { stages: stages.filter((stage) => stage !== undefined), edges, bound: sloMs };
  try {
    structureOf(query);
  } catch (error) {
    if (!(error instanceof QueryShapeError)) throw error;
    giveUpOn([{ path: ["stages"], text: `stages: ${error.message}` }]);
  }
  return { query, rate, stepMs, fits };
}
