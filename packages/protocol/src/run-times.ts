import { BUCKETS_MAX } from "@tutti/units";
import { BATCH_SIZE_MAX, NAME_LENGTH_MAX, SIZE_HINT_MAX, SLO_US_MAX } from "./limits.ts";

/** Most applications with a profile of their own; all others are in the pool. */
export const APPS_PROFILED_MAX = 32;
/** Most classes of size hints by which one application's running times are told apart. */
export const UNIT_CLASSES_MAX = 8;

/** Distribution of the times that requests take alone: masses in bins (docs/algorithms.md, B1). */
export interface RunTimes {
  readonly samples: number;
  /** n + 1 edges of n bins, rising, in µs; not whole numbers. */
  readonly edges: readonly number[];
  readonly masses: readonly number[];
}

export interface AppRunTimes extends RunTimes {
  /** FNV-1a hash of the application's name. */
  readonly app: number;
  /** Name of the application; "" while unknown. */
  readonly name: string;
  /** Fraction of all applications' arrivals in this bucket, 0 … 1. */
  readonly share: number;
  /** Statistics of the samples themselves, in µs; the bins have rounded the samples. */
  readonly mean: number;
  readonly p50: number;
  readonly p99: number;
  /**
   * Times by size hint, in classes of equal mass. A class has the units above the last one's `upTo` and up to its own;
   * larger ones belong to the last class.
   */
  readonly byUnits?: readonly (RunTimes & { readonly upTo: number })[];
}

/** Duration of a batch as a function of its longest member's time alone: fixed + slope · alone, in µs (B3). */
export interface BatchCostPoint {
  readonly batchSize: number;
  readonly fixed: number;
  readonly slope: number;
}

export interface BucketRunTimes {
  /**
   * Kind of scheduling. `static`: times alone hardly vary, so the latency table suffices and nothing is run again.
   * `dynamic`: requests are scheduled by these distributions. `unknown`: not enough is known; treated as static.
   */
  readonly kind: "unknown" | "static" | "dynamic";
  /** Applications, those with most arrivals first. */
  readonly apps: readonly AppRunTimes[];
  /** All applications together, used for those without a profile of their own. Absent without a sample. */
  readonly pool?: AppRunTimes;
  /** Costs by batch size, ascending. */
  readonly costs: readonly BatchCostPoint[];
  /** Number of batches from which the costs are fitted; 0: they come from the latency table. */
  readonly costSamples: number;
}

/** The running times of one model by bucket: the value of `runTimesKeys.model(number)` in the bucket of profiles. */
export interface ModelRunTimes {
  readonly name: string;
  readonly number: number;
  readonly version: string;
  readonly buckets: readonly BucketRunTimes[];
}

export const runTimesKeys = {
  prefix: "times.",
  model: (modelNumber: number): string => `times.${modelNumber}`,
} as const;

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const EDGES_MAX = 65;
const TIME_US_MAX = 10 * SLO_US_MAX;

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isWithin = (value: unknown, min: number, max: number): value is number =>
  typeof value === "number" && value >= min && value <= max;
const isWhole = (value: unknown, min: number, max: number): value is number =>
  Number.isSafeInteger(value) && isWithin(value, min, max);
const isText = (value: unknown, max: number): boolean => typeof value === "string" && value.length <= max;
const isListOf = (value: unknown, max: number, isItem: (item: unknown, i: number) => boolean): value is unknown[] =>
  Array.isArray(value) && value.length <= max && value.every(isItem);

/** Edges rise strictly, and masses sum to one: otherwise `histogram` would throw, and stop its actor. */
function isRunTimes({ samples, edges, masses }: Unknown<RunTimes>): boolean {
  if (!isWhole(samples, 0, 2 ** 31)) return false;
  if (!isListOf(edges, EDGES_MAX, (edge) => isWithin(edge, 0, TIME_US_MAX))) return false;
  if (!isListOf(masses, EDGES_MAX - 1, (mass) => isWithin(mass, 0, 1 + 1e-6))) return false;
  if (masses.length === 0 || edges.length !== masses.length + 1) return false;
  const sum = (masses as number[]).reduce((total, mass) => total + mass, 0);
  return Math.abs(sum - 1) < 1e-6 && (edges as number[]).every((edge, i) => i === 0 || edge > (edges[i - 1] as number));
}

function isAppRunTimes(value: unknown): boolean {
  if (!isMap(value)) return false;
  const { app, name, share, mean, p50, p99, byUnits }: Unknown<AppRunTimes> = value;
  return (
    isRunTimes(value) &&
    isWhole(app, 0, 2 ** 32 - 1) &&
    isText(name, NAME_LENGTH_MAX) &&
    isWithin(share, 0, 1) &&
    [mean, p50, p99].every((time) => isWithin(time, 0, TIME_US_MAX)) &&
    (byUnits === undefined || isUnitClasses(byUnits))
  );
}

function isUnitClasses(value: unknown): boolean {
  const isClass = (one: unknown): boolean => isMap(one) && isRunTimes(one) && isWithin(one["upTo"], 0, SIZE_HINT_MAX);
  if (!isListOf(value, UNIT_CLASSES_MAX, isClass) || value.length === 0) return false;
  const upTo = (value as { upTo: number }[]).map((one) => one.upTo);
  return upTo.every((limit, i) => i === 0 || limit > upTo[i - 1]!);
}

const isCost = (value: unknown): boolean =>
  isMap(value) &&
  isWhole(value["batchSize"], 1, BATCH_SIZE_MAX) &&
  isWithin(value["fixed"], 0, TIME_US_MAX) &&
  isWithin(value["slope"], Number.MIN_VALUE, BATCH_SIZE_MAX * 1_000);

function isBucketRunTimes(value: unknown): boolean {
  if (!isMap(value)) return false;
  const { kind, apps, pool, costs, costSamples }: Unknown<BucketRunTimes> = value;
  return (
    (kind === "unknown" || kind === "static" || kind === "dynamic") &&
    isListOf(apps, APPS_PROFILED_MAX, isAppRunTimes) &&
    new Set(apps.map((one) => (one as AppRunTimes).app)).size === apps.length &&
    (pool === undefined || isAppRunTimes(pool)) &&
    isListOf(costs, BATCH_SIZE_MAX, isCost) &&
    costs.every(
      (cost, i) => i === 0 || (cost as BatchCostPoint).batchSize > (costs[i - 1] as BatchCostPoint).batchSize,
    ) &&
    isWhole(costSamples, 0, 2 ** 31)
  );
}

/** Validates everything that readers rely on (T8). */
export function isModelRunTimes(value: unknown): value is ModelRunTimes {
  if (!isMap(value)) return false;
  const { name, number, version, buckets }: Unknown<ModelRunTimes> = value;
  return (
    isText(name, NAME_LENGTH_MAX) &&
    isWhole(number, 0, 2 ** 26 - 1) &&
    typeof version === "string" &&
    isListOf(buckets, BUCKETS_MAX, isBucketRunTimes)
  );
}
