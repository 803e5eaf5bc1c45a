/** Latency tables as users write them: `{ alpha: 1.053ms, beta: 5.072ms }`, or `{ 1: 6ms, 8: 12ms }`. */
import type { ProfilePoints } from "@tutti/protocol";
import { type Micros, parseDuration } from "@tutti/units";
import { CommandError } from "../failure.ts";

/**
 * @param source - origin of the table, for errors
 * @returns points in order of batch size; an affine table has one for each size up to `batchSizeMax`
 */
export function readLatencyPoints(value: unknown, batchSizeMax: number, source: string): ProfilePoints {
  if (typeof value !== "object" || value === null) throw unreadable(source, `got ${JSON.stringify(value)}`);
  const table = value as Readonly<Record<string, unknown>>;
  if ("alpha" in table || "beta" in table) return affine(table, batchSizeMax, source);
  const entries = Array.isArray(value) ? value.map(listed) : Object.entries(table);
  const points = entries.map(([size, latency]) => ({
    batchSize: batchSizeOf(size, batchSizeMax, source),
    latency: latencyOf(latency, `${source}, batch size ${String(size)}`),
  }));
  points.sort((a, b) => a.batchSize - b.batchSize);
  if (points[0]?.batchSize !== 1) throw unreadable(source, "the latency of batch size 1 is missing");
  return points;
}

function affine(table: Readonly<Record<string, unknown>>, batchSizeMax: number, source: string): ProfilePoints {
  const alpha = latencyOf(table["alpha"], `${source}, alpha`);
  const beta = latencyOf(table["beta"] ?? 0, `${source}, beta`);
  return Array.from({ length: batchSizeMax }, (_, index) => ({
    batchSize: index + 1,
    latency: (alpha * (index + 1) + beta) as Micros,
  }));
}

/** Reads a stored point, `{ batchSize, latency }`, with the latency in microseconds. */
function listed(point: unknown): [unknown, unknown] {
  const { batchSize, latency } = (point ?? {}) as { batchSize?: unknown; latency?: unknown };
  return [batchSize, typeof latency === "number" ? `${latency}us` : latency];
}

function batchSizeOf(size: unknown, batchSizeMax: number, source: string): number {
  const count = Number(size);
  if (Number.isInteger(count) && count >= 1 && count <= batchSizeMax) return count;
  throw unreadable(source, `${JSON.stringify(size)} is no batch size from 1 to ${batchSizeMax}`);
}

/** Parses a latency. A number without a unit is in milliseconds, as everywhere on the command line. */
function latencyOf(value: unknown, source: string): Micros {
  const duration = typeof value === "string" || typeof value === "number" ? parseDuration(String(value)) : undefined;
  if (duration !== undefined) return duration;
  throw unreadable(source, `${JSON.stringify(value)} is no length of time`);
}

const unreadable = (source: string, what: string): CommandError =>
  new CommandError(`${source}: ${what}; write { alpha: 1.05ms, beta: 5ms } or { 1: 6ms, 2: 7ms, 8: 12ms }`);
