import { type PlacementPlan, type PooledModel, poolCapacity } from "@tutti/planning/live";
import type { PlanReport } from "@tutti/protocol";
import type { MeasuredModel } from "./measured-models.ts";

/** Bound of the models' buckets whose capacity is computed: more would hold up the messages of its process. */
const POOLED_MAX = 256;

type ReportedCapacity = Pick<PlanReport["subClusters"][number], "carriedRps" | "waits">;

export interface ExpectedCapacity {
  readonly bySubCluster: ReadonlyMap<string, ReportedCapacity>;
  /** Rate that all accelerators would carry as one sub-cluster; undefined: they are one. */
  readonly undividedRps: number | undefined;
}

/**
 * Rates that each sub-cluster is expected to carry of the mix that it serves now, and all accelerators of the whole mix
 * (docs/algorithms.md, D9). Models that nobody asks for don't count.
 */
export function expectedCapacity(
  models: readonly MeasuredModel[],
  plan: Pick<PlacementPlan, "models" | "loads">,
  dispersionOf: (number: number) => number | undefined,
): ExpectedCapacity {
  const asked = models.filter(({ rate }) => rate > 0);
  if (asked.reduce((sum, { shares }) => sum + shares.length, 0) > POOLED_MAX)
    return { bySubCluster: new Map(), undividedRps: undefined };
  const placeOf = new Map(plan.models.map(({ number, subCluster }) => [number, subCluster]));
  const capacityOf = (own: readonly MeasuredModel[], gpus: number): ReportedCapacity => {
    const pool = own.flatMap((model) => {
      const dispersion = dispersionOf(model.number) ?? 1;
      return model.shares.map((share): PooledModel & { name: string } => ({ ...share, dispersion, name: model.name }));
    });
    if (pool.length === 0 || gpus === 0) return {};
    const { carried, waits } = poolCapacity(pool, gpus);
    return { carriedRps: 1e6 * carried, ...(waits !== undefined && { waits: pool[waits]!.name }) };
  };
  const loads = plan.loads.map(({ subCluster, gpus }) => {
    return { subCluster, gpus, own: asked.filter(({ number }) => placeOf.get(number) === subCluster) };
  });
  const bySubCluster = new Map(loads.map(({ subCluster, gpus, own }) => [subCluster, capacityOf(own, gpus)]));
  const used = loads.filter(({ own }) => own.length > 0);
  const gpus = used.reduce((sum, load) => sum + load.gpus, 0);
  const undividedRps =
    used.length > 1
      ? capacityOf(
          used.flatMap(({ own }) => own),
          gpus,
        ).carriedRps
      : undefined;
  return { bySubCluster, undividedRps };
}
