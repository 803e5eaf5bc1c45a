/** Latencies on a part of an accelerator, emulated after docs/algorithms.md, D6. */
import { type Interference, factorBeside } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { type Micros, micros } from "@tutti/units";
import type { ModelParts, Network, ScenarioModel } from "../scenario/scenario.ts";

export const HALF = 50;

/**
 * L(b,p) = β + α·b/min(p, min(1, fills·b)) in µs, p a share: a batch that doesn't fill its part takes as long as one
 * that does.
 */
export function partLatency({ alpha, beta, fills }: ModelParts, batchSize: number, share: number): Micros {
  return micros(Math.round(beta + (alpha * batchSize) / Math.min(share, 1, fills * batchSize)));
}

/** Latency table on a whole accelerator. */
export function wholeProfile(parts: ModelParts, batchSizeMax: number): LatencyTable {
  return partTable(parts, 1, batchSizeMax);
}

/**
 * Latency table on `size` percent of an accelerator.
 *
 * A model that doesn't declare how much of an accelerator it fills takes as many times longer as the part is smaller:
 * then parts gain nothing.
 */
export function partProfile({ parts, profile }: ScenarioModel, size: number): LatencyTable {
  if (size === 100) return profile;
  if (parts !== undefined) return partTable(parts, size / 100, profile.batchSizeMax);
  const points = profile.toPoints();
  return LatencyTable.fromPoints(
    points.map(({ batchSize, latency }) => ({ batchSize, latency: micros(Math.round((latency * 100) / size)) })),
  );
}

/** The table with runs that take `factor` times as long. */
export function slower(table: LatencyTable, factor: number): LatencyTable {
  if (factor === 1) return table;
  const points = table.toPoints();
  return LatencyTable.fromPoints(
    points.map(({ batchSize, latency }) => ({ batchSize, latency: micros(Math.ceil(latency * factor)) })),
  );
}

/** Latencies on a half beside the model that slows it most (HALF-2). */
export function halfProfile(
  model: ScenarioModel,
  beside: readonly ScenarioModel[],
  interference: Interference | undefined,
): LatencyTable {
  const alone = partProfile(model, HALF);
  if (interference === undefined) return alone;
  const own = { model: usesOf(model), size: HALF };
  const factors = beside.map((other) => factorBeside(interference, own, { model: usesOf(other), size: HALF }));
  return slower(alone, Math.max(1, ...factors));
}

const usesOf = ({ parts }: ScenarioModel) => ({
  cacheUse: parts?.cacheUse ?? 0,
  bandwidthUse: parts?.bandwidthUse ?? 0,
});

/** The longest that a request of one item is on the way, µs. */
export const delayOf = ({ arrive, ctrl, data, respond, jitter }: Network): number =>
  ((arrive ?? 0) + ctrl + data + respond) * (1 + jitter);

function partTable(parts: ModelParts, share: number, batchSizeMax: number): LatencyTable {
  return LatencyTable.fromPoints(
    Array.from({ length: batchSizeMax }, (_, i) => ({ batchSize: i + 1, latency: partLatency(parts, i + 1, share) })),
  );
}
