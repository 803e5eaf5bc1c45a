import { type PooledModel, workPerRequest } from "@tutti/planning/live";
import { LatencyTable } from "@tutti/profile";
import { type ModelStatus, type ProfilePoints, memoryOf } from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import type { CatalogModel } from "../runtime/catalog.ts";
import type { ClusterState } from "./cluster-state.ts";
import { type LoadStats, type ModelLoad, bucketShares } from "./load-stats.ts";

/** Measurements of a wanted model, for the pure planner and for the advice on scaling. */
export interface MeasuredModel {
  readonly number: number;
  readonly name: string;
  readonly rate: number;
  /** Number of accelerators that it keeps busy. */
  readonly work: number;
  readonly memoryBytes: number;
  readonly dynamicBytes: number;
  readonly sloMs: number;
  /** Accelerator time per request in ms. */
  readonly workMs: number;
  readonly load: ModelLoad;
  /** Its buckets with their profiles and rates, for the expected capacity; none before it was measured. */
  readonly shares: readonly MeasuredShare[];
}

export interface MeasuredShare extends Omit<PooledModel, "dispersion"> {
  /** Where executor types are unlike: the profiles of those that are known; undefined: such a type doesn't serve it. */
  readonly byType?: ReadonlyMap<string, PooledModel["profile"] | undefined>;
}

const UNSERVED: ReadonlySet<ModelStatus["state"]> = new Set(["refused", "failed", "quarantined"]);
const NO_LOAD: ModelLoad = { rate: 0, latestRate: 0, ok: 0, bad: 0, infeasible: 0 };

/** Measures the models, in the order of their numbers. */
export function measureModels(
  models: Iterable<CatalogModel>,
  cluster: ClusterState,
  loads: LoadStats,
  now: Instant,
): MeasuredModel[] {
  const byModel = loads.models(now);
  const threads = loads.threads(now);
  return Array.from(models, (model) => {
    const { number, name, slo } = model.spec;
    const load = byModel.get(number) ?? NO_LOAD;
    const byBucket = bucketShares(threads, number, Math.max(1, model.spec.buckets.length));
    const workMs = workOf(model, load.rate, byBucket);
    const size = cluster.sizeOf(number);
    return {
      number,
      name,
      rate: load.rate,
      work: (load.rate * workMs) / 1_000,
      memoryBytes: size?.memoryBytes ?? memoryOf(model.spec),
      dynamicBytes: size?.dynamicBytes ?? 0,
      sloMs: slo / 1_000,
      workMs,
      load,
      shares: pooledShares(model, load.rate, byBucket),
    };
  }).sort((a, b) => a.number - b.number);
}

/** Accelerator time of a request in ms, on average over buckets; 0 before anything was measured. */
function workOf({ spec, status }: CatalogModel, rate: number, shares: readonly number[]): number {
  const table = (points: ProfilePoints | undefined): LatencyTable | undefined => tableOf(points, spec.batchSizeMax);
  return shares.reduce((sum, share, bucket) => {
    const profile = table(status?.profiles[bucket] ?? spec.profile?.[bucket]);
    if (profile === undefined) return sum;
    const mean = table(status?.means[bucket]) ?? profile;
    return sum + share * workPerRequest({ profile, mean, slo: spec.slo, rate: rate * share });
  }, 0);
}

function pooledShares(
  { spec, status }: CatalogModel,
  rate: number,
  byBucket: readonly number[],
): MeasuredModel["shares"] {
  // Requests for such a model are refused at the door.
  if (status !== undefined && UNSERVED.has(status.state)) return [];
  return byBucket.flatMap((bucketShare, bucket) => {
    const profile = tableOf(status?.profiles[bucket] ?? spec.profile?.[bucket], spec.batchSizeMax);
    if (profile === undefined) return [];
    const byType = status?.byType?.map(({ type, profiles, live = profiles, unfit = false }) => {
      return [type, unfit ? undefined : tableOf(live[bucket], spec.batchSizeMax)] as const;
    });
    return [{ share: rate * bucketShare, slo: spec.slo, profile, ...(byType && { byType: new Map(byType) }) }];
  });
}

/** Cache of latency tables. A table takes longer to make than to ask, and a profile stays for minutes. */
const TABLES = new WeakMap<ProfilePoints, LatencyTable>();

function tableOf(points: ProfilePoints | undefined, batchSizeMax: number): LatencyTable | undefined {
  if (points === undefined || points.length === 0) return undefined;
  const known = TABLES.get(points);
  if (known !== undefined && known.batchSizeMax <= batchSizeMax) return known;
  const table = LatencyTable.fromPoints(points, { batchSizeMax });
  TABLES.set(points, table);
  return table;
}
