import { type ModelThread, jobRunMax } from "@tutti/scheduling";
import type { Micros } from "@tutti/units";
import type { CatalogModel } from "../runtime/catalog.ts";

/** The least that these models leave of their SLOs beside a request's own run, before any delays. */
export function leastSlack(models: Iterable<Pick<CatalogModel, "spec" | "status">>): number {
  let least = Infinity;
  for (const { spec, status } of models)
    for (const points of status?.profiles ?? []) least = Math.min(least, spec.slo - (points[0]?.latency ?? 0));
  return least;
}

/**
 * How long a batch of jobs may run beside requests (docs/algorithms.md, A13).
 *
 * @param least - of all models of the sub-cluster, also those of other batchers
 * @param delays - that the jobs' own thread plans with: it uses the same rankers and executors
 */
export const jobRunMaxBeside = (
  least: number,
  { ctrl, perItem, respond }: Pick<ModelThread, "ctrl" | "perItem" | "respond">,
): Micros => jobRunMax([least - ctrl - perItem - respond]);
