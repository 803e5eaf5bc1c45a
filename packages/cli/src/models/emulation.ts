/**
 * `--emulate profiles.yaml`: models without a file, whose batches take the time that their latency table says.
 *
 *   resnet50: { slo: 25ms, max_batch_size: 32, latencies: { alpha: 1.053ms, beta: 5.072ms } }
 */
import type { DesiredModel } from "@tutti/client";
import { BATCH_SIZE_MAX, SLO_US_MAX, isName } from "@tutti/protocol";
import { parseDuration } from "@tutti/units";
import { CommandError } from "../failure.ts";
import { parseYamlMap, profileOf } from "./desired-model.ts";

const BATCH_SIZE_DEFAULT = 64;
/** Emulated models compute nothing, so their tensors are as small as tensors get, unless `width` says otherwise. */
const WIDTH = 4;
const WIDTH_MAX = 1_000_000;
const KEYS = ["slo", "max_batch_size", "patience", "latencies", "width"];

/** @throws {CommandError} naming the model and the key */
export function parseEmulation(text: string, origin: string): DesiredModel[] {
  const models = Object.entries(parseYamlMap(text, origin));
  if (models.length === 0) throw new CommandError(`${origin} names no models`);
  return models.map(([name, value]) => emulated(name, value, `${origin}, ${name}`));
}

function emulated(name: string, value: unknown, origin: string): DesiredModel {
  if (!isName(name)) throw new CommandError(`${origin}: names have letters, digits, "-" and "_" only`);
  if (typeof value !== "object" || value === null)
    throw new CommandError(`${origin}: a map of ${KEYS.join(", ")} is expected`);
  for (const key of Object.keys(value)) {
    if (!KEYS.includes(key)) throw new CommandError(`${origin}: unknown key "${key}"; known are ${KEYS.join(", ")}`);
  }
  const given = value as Readonly<Record<string, unknown>>;
  const slo = parseDuration(String(given["slo"] ?? ""));
  if (slo === undefined || slo <= 0 || slo > SLO_US_MAX)
    throw new CommandError(`${origin}: slo: give one, such as 25ms`);
  if (given["latencies"] === undefined) {
    throw new CommandError(`${origin}: latencies: give { alpha: 1.053ms, beta: 5.072ms } or { 1: 6ms, 8: 12ms }`);
  }
  const batchSizeMax = numberOf(
    "max_batch_size",
    given["max_batch_size"] ?? BATCH_SIZE_DEFAULT,
    [1, BATCH_SIZE_MAX],
    origin,
  );
  const width = numberOf("width", given["width"] ?? WIDTH, [1, WIDTH_MAX], origin);
  const patience = Number(given["patience"] ?? 1);
  if (!(patience >= 0 && patience <= 1)) throw new CommandError(`${origin}: patience: 0 (eager) to 1 (full deferral)`);
  const buckets = [{}];
  return {
    name,
    engine: "emulated",
    slo,
    batchSizeMax,
    patience,
    inputs: [{ name: "x", type: "FP32", dims: ["batch", width] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", WIDTH] }],
    constants: [],
    axes: {},
    buckets,
    profile: profileOf(given["latencies"], { name: origin, batchSizeMax, buckets }),
  };
}

function numberOf(key: string, value: unknown, [min, max]: readonly [number, number], origin: string): number {
  const count = Number(value);
  if (Number.isInteger(count) && count >= min && count <= max) return count;
  throw new CommandError(`${origin}: ${key}: a whole number from ${min} to ${max}, not ${JSON.stringify(value)}`);
}
