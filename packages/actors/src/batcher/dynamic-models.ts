import { asHistogram, costsOf } from "@tutti/profile";
import type { AppRunTimes, BucketRunTimes } from "@tutti/protocol";
import { type AppProfile, type DynamicProfile, dynamicProfile } from "@tutti/scheduling";
import type { CatalogModel } from "../runtime/catalog.ts";
import type { Variation } from "./sample-selector.ts";

export const variationOf = (model: CatalogModel, bucket: number): Variation =>
  model.times?.buckets[bucket]?.kind ?? "unknown";

/**
 * Cache of profiles by running times. A profile takes milliseconds to compute, and running times stay the same while
 * latency tables change.
 */
const made = new WeakMap<BucketRunTimes, { readonly profile: DynamicProfile | undefined }>();

/** Profile that a ModelThread of this bucket schedules by; undefined if the model's latency table is enough. */
export function dynamicOf({ spec, times }: CatalogModel, bucket: number): DynamicProfile | undefined {
  const known = times?.buckets[bucket];
  if (known === undefined || known.kind !== "dynamic" || known.apps.length === 0) return undefined;
  let one = made.get(known);
  if (one === undefined) {
    const { batchSizeMax, slo } = spec;
    const profile = dynamicProfile({ apps: appProfiles(known), costs: costsOf(known.costs), batchSizeMax, slo });
    made.set(known, (one = { profile }));
  }
  return one.profile;
}

const appProfiles = ({ apps }: BucketRunTimes): AppProfile[] =>
  apps.map((times) => ({
    app: times.app,
    // An application without recent requests may ask again, so its share is not zero.
    share: Math.max(1e-6, times.share),
    alone: asHistogram(times),
    ...(times.byUnits !== undefined && { byUnits: unitRanges(times.byUnits) }),
  }));

/** Adjacent ranges: where one ends at `upTo`, the next begins just above. */
function unitRanges(classes: NonNullable<AppRunTimes["byUnits"]>): NonNullable<AppProfile["byUnits"]> {
  const all = classes.reduce((sum, { samples }) => sum + samples, 0);
  return classes.map((one, i) => ({
    below: i === classes.length - 1 ? Infinity : one.upTo * (1 + 1e-12) + 1e-12,
    share: all > 0 ? one.samples / all : 1 / classes.length,
    alone: asHistogram(one),
  }));
}
