/**
 * Input of `tutti plan fractions`, converted to the planner's models. Times are in ms, rates in requests per ms, sizes
 * in percent, as in docs/algorithms.md, D.
 */
import { type FractionModel, type Interference, SIZES, WHOLE, fitInterference } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { millis } from "@tutti/units";
import { type Problem, type YamlPath, lineOf } from "@tutti/sim-report/scenarios";
import { checkNames, readPlanFile } from "./plan-file.ts";

/** The document after the schema check. */
interface FractionsDocument {
  readonly executors?: number;
  readonly sizes?: readonly number[];
  readonly interference?: InterferenceEntry;
  readonly models: readonly ModelEntry[];
}
interface InterferenceEntry {
  readonly coefficients?: Interference;
  readonly samples?: readonly (readonly [number, number, number, number, number])[];
}
interface ModelEntry {
  readonly name: string;
  readonly rate: number;
  readonly sloMs: number;
  readonly alphaMs?: number;
  readonly betaMs?: number;
  readonly saturation?: number;
  /** By size and batch size. */
  readonly latencyMs?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly batchMax?: number;
  readonly cacheUse?: number;
  readonly bandwidthUse?: number;
}

export interface FractionsInput {
  /** By id. */
  readonly names: readonly string[];
  readonly models: readonly FractionModel[];
  readonly executors: number;
  readonly sizes: readonly number[];
  readonly interference: Interference | undefined;
}

/** The defaults that the schema declares. */
export const FRACTION_DEFAULTS = { executors: 8, sizes: SIZES, batchMax: 32 } as const;

/** @throws {CommandError} as `readPlanFile` */
export async function readFractionsInput(path: string, settings?: readonly string[]): Promise<FractionsInput> {
  const { document, giveUpOn } = await readPlanFile<FractionsDocument>("fractions", path, settings);
  const problems: Problem[] = [];
  checkNames("models", document.models, problems);
  const sizes = document.sizes ?? FRACTION_DEFAULTS.sizes;
  checkSizes(sizes, problems);
  const interference = interferenceOf(document.interference, problems);
  const models = document.models.map((entry, id): FractionModel | undefined => {
    const latency = latencyOf(entry, sizes, ["models", id], problems);
    if (latency === undefined) return undefined;
    const { rate, sloMs: slo, batchMax, cacheUse = 0, bandwidthUse = 0 } = entry;
    const largest = Math.min(batchMax ?? FRACTION_DEFAULTS.batchMax, latency.batchMax);
    return { id, slo, rate: rate / 1000, batchMax: largest, latency: latency.of, cacheUse, bandwidthUse };
  });
  giveUpOn(problems);
  return {
    names: document.models.map(({ name }) => name),
    models: models.filter((model) => model !== undefined),
    executors: document.executors ?? FRACTION_DEFAULTS.executors,
    ...{ sizes, interference },
  };
}

function checkSizes(sizes: readonly number[], problems: Problem[]): void {
  const falls = sizes.findIndex((size, i) => i > 0 && size <= sizes[i - 1]!);
  if (falls > 0) problems.push({ path: ["sizes", falls], text: "put sizes in ascending order, each once" });
  if (sizes.at(-1) !== WHOLE)
    problems.push({ path: ["sizes"], text: "the last size is 100: an accelerator may stay whole" });
  for (const [i, size] of sizes.entries()) {
    if (size === WHOLE || sizes.includes(WHOLE - size)) continue;
    problems.push({ path: ["sizes", i], text: `${size} leaves ${WHOLE - size}, which isn't among the sizes; add it` });
  }
}

function interferenceOf(entry: InterferenceEntry | undefined, problems: Problem[]): Interference | undefined {
  if (entry?.samples === undefined) return entry?.coefficients;
  try {
    const samples = entry.samples.map(([a, b, c, d, factor]) => ({ uses: [a, b, c, d] as const, factor }));
    return fitInterference(samples).coefficients;
  } catch {
    const text = "these pairs don't tell the five coefficients apart; measure pairs that differ more";
    problems.push({ path: ["interference", "samples"], text });
    return undefined;
  }
}

interface Latency {
  readonly batchMax: number;
  of(batchSize: number, size: number): number;
}

function latencyOf(
  entry: ModelEntry,
  sizes: readonly number[],
  path: YamlPath,
  problems: Problem[],
): Latency | undefined {
  const { saturation, latencyMs } = entry;
  if (latencyMs !== undefined) {
    for (const key of ["alphaMs", "betaMs", "saturation"] as const)
      if (entry[key] !== undefined)
        problems.push({ path: [...path, key], at: "key", text: "give either latencyMs, or alphaMs and betaMs" });
    return measured(latencyMs, sizes);
  }
  const line = lineOf(entry, path, problems);
  return line === undefined ? undefined : formula({ ...line, saturation: saturation ?? 1 }, sizes);
}

/**
 * L(b,p) = β + α·b/min(p, min(1, σ·b)). A larger share of the accelerator than a batch can use doesn't help
 * (docs/algorithms.md, D6).
 */
function formula(line: { alphaMs: number; betaMs: number; saturation: number }, sizes: readonly number[]): Latency {
  const { alphaMs, betaMs, saturation } = line;
  const bySize = new Map(
    sizes.map((size) => [
      size,
      Float64Array.from(
        { length: BATCH_MAX + 1 },
        (_, b) => betaMs + (alphaMs * b) / Math.min(size / WHOLE, Math.min(1, saturation * b)),
      ),
    ]),
  );
  return { batchMax: BATCH_MAX, of: (batchSize, size) => bySize.get(size)?.[batchSize] ?? Infinity };
}
const BATCH_MAX = 1024;

/**
 * Latencies from a table: a size that wasn't measured counts as slow as the next smaller one that was. Below the
 * smallest measured size nothing is known (D5).
 */
function measured(latencyMs: NonNullable<ModelEntry["latencyMs"]>, sizes: readonly number[]): Latency {
  const tables = Object.entries(latencyMs)
    .map(([size, byBatch]) => ({ size: Number(size), table: tableOf(byBatch) }))
    .sort((a, b) => a.size - b.size);
  const bySize = new Map(sizes.map((size) => [size, tables.findLast((one) => one.size <= size)?.table]));
  return {
    batchMax: Math.max(...tables.map(({ table }) => table.batchSizeMax)),
    of: (batchSize, size) => (bySize.get(size)?.latency(batchSize) ?? Infinity) / 1000,
  };
}

const tableOf = (byBatch: Readonly<Record<string, number>>): LatencyTable =>
  LatencyTable.fromPoints(
    Object.entries(byBatch).map(([size, ms]) => ({ batchSize: Number(size), latency: millis(ms) })),
    { batchSizeMax: Math.min(BATCH_MAX, Math.max(...Object.keys(byBatch).map(Number))) },
  );
