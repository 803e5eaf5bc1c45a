import type { ModelSpec, ProfilePoints } from "@tutti/protocol";
import type { OfferedType } from "@tutti/planning/live";
import { quantile } from "@tutti/profile";
import { type Micros, formatDuration, micros } from "@tutti/units";

/** 1, 2, 4, … up to the maximum batch, which is always measured itself. */
export function batchSizesOf(batchSizeMax: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size < batchSizeMax; size *= 2) sizes.push(size);
  return [...sizes, batchSizeMax];
}

export interface MeasuredSize {
  readonly batchSize: number;
  readonly runs: readonly number[];
}

/** Points of l(b) from all samples of one executor type, their medians or means; whole microseconds, rounded up. */
export function pointsOf(sizes: readonly MeasuredSize[], summary: "median" | "mean"): ProfilePoints {
  const bySize = new Map<number, number[]>();
  for (const { batchSize, runs } of sizes) bySize.set(batchSize, [...(bySize.get(batchSize) ?? []), ...runs]);
  return [...bySize]
    .filter(([, runs]) => runs.length > 0)
    .sort(([a], [b]) => a - b)
    .map(([batchSize, runs]) => {
      const value =
        summary === "mean"
          ? runs.reduce((sum, run) => sum + run, 0) / runs.length
          : quantile(
              runs.toSorted((a, b) => a - b),
              0.5,
            );
      return { batchSize, latency: micros(Math.max(1, Math.ceil(value))) };
    });
}

/** How executors of one type are to a model, which may have buckets: the worst of them counts. */
export function offeredType(
  spec: ModelSpec,
  profiles: readonly ProfilePoints[],
  gpus: number,
  overhead: Micros,
): OfferedType {
  const alone = Math.max(1, ...profiles.map((points) => points[0]?.latency ?? 0));
  const room = spec.slo - overhead;
  return { tightness: room > 0 ? alone / room : Infinity, capacity: gpus / alone };
}

/**
 * Why a model can't be served under its SLO; "" if it can. Every bucket must be able to run at least one request in
 * time.
 */
export function refusalOf(spec: ModelSpec, profiles: readonly ProfilePoints[], overhead: Micros): string {
  for (const [bucket, points] of profiles.entries()) {
    const alone = points[0]?.latency;
    if (alone === undefined || alone + overhead <= spec.slo) continue;
    const isBucketed = spec.buckets.length > 1;
    const which = isBucketed ? ` in bucket ${JSON.stringify(spec.buckets[bucket])}` : "";
    const least = formatDuration(micros(alone + overhead));
    return `one request alone takes ${formatDuration(alone)}${which} and ${formatDuration(overhead)} on the way, which its SLO of ${formatDuration(spec.slo)} does not allow: load it with an SLO of at least ${least}${isBucketed ? ", or drop that bucket" : ""}`;
  }
  return "";
}
