import { type ModelThread, jobRunMax } from "@tutti/scheduling";
import type { Micros } from "@tutti/units";
import type { CatalogModel } from "../runtime/catalog.ts";

/**
 * How long a batch of jobs may run beside these models' requests (docs/algorithms.md, A13).
 *
 * @param models - all of a sub-cluster, also those of other batchers
 * @param delays - that the jobs' own thread plans with: it uses the same rankers and executors
 */
export function jobRunMaxBeside(
  models: readonly Pick<CatalogModel, "spec" | "status">[],
  { ctrl, perItem, respond }: Pick<ModelThread, "ctrl" | "perItem" | "respond">,
): Micros {
  const slacks = models.flatMap(({ spec, status }) =>
    (status?.profiles ?? []).map((points) => spec.slo - (points[0]?.latency ?? 0) - ctrl - perItem - respond),
  );
  return jobRunMax(slacks);
}
