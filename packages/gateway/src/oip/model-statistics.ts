/** Triton's statistics of a model, from the counts of the cluster's actors. */
import { type ModelSpec, type PipelineReport, publicNameOf } from "@tutti/protocol";
import type { ModelTotals } from "../metrics/cluster-figures.ts";
import type { PartTotals } from "../metrics/part-totals.ts";

export interface DurationStatistic {
  readonly count: number;
  /** Nanoseconds in total. */
  readonly ns: number;
}
export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  /** Milliseconds since 1970; 0: never. */
  readonly last_inference: number;
  /**
   * Requests that ran and were answered, from the same reports as `success`: those of batchers come up to a second
   * apart from them.
   */
  readonly inference_count: number;
  /** Batches that ran, without the system's own for warm-up. */
  readonly execution_count: number;
  readonly inference_stats: Readonly<
    Record<
      "success" | "fail" | "queue" | "compute_input" | "compute_infer" | "compute_output" | "cache_hit" | "cache_miss",
      DurationStatistic
    >
  >;
  readonly batch_stats: readonly [];
}

/** This gateway's own requests. */
export interface OwnTotals {
  readonly lastAtMs: number;
}

const NONE: DurationStatistic = { count: 0, ns: 0 };
/** Rounds to whole numbers, as the protocol's 64-bit fields require. */
const ns = (us: number): number => Math.round(us * 1_000);

export function modelStatistics(
  { name, version }: Pick<ModelSpec, "name" | "version">,
  totals: Readonly<ModelTotals> | undefined,
  own: OwnTotals | undefined,
): ModelStatistics {
  const computed = (us = 0): DurationStatistic => ({ count: totals?.computed ?? 0, ns: ns(us) });
  return {
    name: publicNameOf(name),
    version,
    last_inference: own?.lastAtMs ?? 0,
    inference_count: totals?.ok ?? 0,
    execution_count: totals?.batches ?? 0,
    inference_stats: {
      success: { count: totals?.ok ?? 0, ns: ns(totals?.latencyUs ?? 0) },
      fail: { count: refusedOf(totals), ns: 0 },
      queue: { count: totals?.ok ?? 0, ns: ns(totals?.queueUs ?? 0) },
      compute_input: computed(totals?.computePullUs),
      compute_infer: computed(totals?.computeRunUs),
      compute_output: computed(totals?.computePushUs),
      cache_hit: NONE,
      cache_miss: NONE,
    },
    batch_stats: [],
  };
}

/** Statistics of a pipeline. What its stages compute counts for their models. */
export function pipelineStatistics(
  { name, version }: PipelineReport,
  totals: Readonly<PartTotals> | undefined,
  own: OwnTotals | undefined,
): ModelStatistics {
  const { ok = 0, latencyUs = 0 } = totals ?? {};
  return {
    ...{ name, version, last_inference: own?.lastAtMs ?? 0, inference_count: ok, execution_count: ok },
    inference_stats: {
      success: { count: ok, ns: ns(latencyUs) },
      fail: { count: refusedOf(totals), ns: 0 },
      ...{ queue: NONE, compute_input: NONE, compute_infer: NONE, compute_output: NONE },
      ...{ cache_hit: NONE, cache_miss: NONE },
    },
    batch_stats: [],
  };
}

const refusedOf = (totals: { readonly refused: ReadonlyMap<string, number> } | undefined): number =>
  [...(totals?.refused.values() ?? [])].reduce((sum, count) => sum + count, 0);
