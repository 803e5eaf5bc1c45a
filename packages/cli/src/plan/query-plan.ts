/**
 * `tutti plan query`: the split of a query's time, as JSON with public field names. Rates are in requests per second,
 * times in ms.
 */
import { type LatencySplit, splitEvenly, splitLatency } from "@tutti/planning";
import type { QueryInput } from "./query-input.ts";

export interface QueryResult {
  readonly kind: "query";
  /** Some split keeps the SLO. */
  readonly feasible: boolean;
  readonly sloMs: number;
  /** Queries per second. */
  readonly rate: number;
  readonly fits: 1 | 2;
  readonly stages: readonly string[];
  /** The split with the fewest executors; undefined: no split keeps the SLO. */
  readonly planned: SplitResult | undefined;
  /** The split with equal times on the longest path; undefined: some stage's time is too short. */
  readonly even: SplitResult | undefined;
}
export interface SplitResult {
  readonly executors: number;
  readonly stages: readonly StageResult[];
}
export interface StageResult {
  readonly stage: string;
  readonly rate: number;
  readonly budgetMs: number;
  readonly batchSize: number;
  readonly batchMs: number;
  readonly executors: number;
}

export function runQuery(input: QueryInput): QueryResult {
  const { query, rate, stepMs, fits } = input;
  const planned = splitLatency(query, { fits, ...(stepMs !== undefined && { step: stepMs }) });
  const even = splitEvenly(query, { fits });
  return {
    kind: "query",
    feasible: planned !== undefined,
    ...{ sloMs: query.bound, rate, fits },
    stages: query.stages.map(({ name }) => name),
    planned: planned && splitResult(input, planned),
    even: even && splitResult(input, even),
  };
}

function splitResult({ query }: QueryInput, { executors, stages }: LatencySplit): SplitResult {
  return {
    executors,
    stages: stages.map(({ name, budget, batchSize, executors: own }, i): StageResult => {
      const { rate, latency } = query.stages[i]!;
      const named = { stage: name, rate: 1000 * rate, budgetMs: budget };
      return { ...named, batchSize, batchMs: latency.latency(batchSize), executors: own };
    }),
  };
}
