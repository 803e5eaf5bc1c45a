/** Profile of a dynamic model for Tutti's own scheduler, as production's profiler publishes it. */
import { type Histogram, histogram } from "@tutti/dynamic";
import { type AppProfile, type DynamicProfile, dynamicProfile } from "@tutti/scheduling";
import type { Micros } from "@tutti/units";
import { type DynamicLoad, batchCostsOf } from "./dynamic-load.ts";

/** @returns undefined where all requests take equally long */
export function profileOfLoad(load: DynamicLoad, slo: Micros): DynamicProfile | undefined {
  const apps = load.apps.map(({ share, alone }, app): AppProfile => {
    return load.hints === "none" ? { app, share, alone } : { app, share, alone, byUnits: rangesOf(alone) };
  });
  return dynamicProfile({ apps, costs: batchCostsOf(load.costs), batchSizeMax: load.sizes.at(-1)!, slo });
}

/** An exact hint says in which bin a request lies: each bin is a range of hints. */
function rangesOf({ edges, masses }: Histogram): NonNullable<AppProfile["byUnits"]> {
  return [...masses].map((share, j) => ({
    below: j === masses.length - 1 ? Infinity : edges[j + 1]!,
    share,
    alone: histogram([edges[j]!, edges[j + 1]!], [1]),
  }));
}
