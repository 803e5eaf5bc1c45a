/**
 * Reads the `models` of a scenario file into the simulator's streams: it resolves zoos, expands counts and computes
 * shares.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { LatencyTable } from "@tutti/profile";
import {
  type DynamicLoad,
  type ModelParts,
  type ScenarioModel,
  meanProfile,
  soloQuantile,
  wholeProfile,
} from "@tutti/simulator";
import { type Micros, micros, millis } from "@tutti/units";
import { type CostEntry, costsOf } from "./cost-steps.ts";
import { type DynamicEntry, readDynamic } from "./dynamic-models.ts";
import type { Problem, YamlPath } from "./located-yaml.ts";
import { type ZooModel, parseZoo } from "./model-zoo.ts";
import { type VariantsEntry, aloneLine, hasVariantProblem, togetherProfile } from "./variant-models.ts";

/** The schema has checked these. */
export interface ModelEntry extends Common {
  readonly name: string;
  readonly alphaMs?: number;
  readonly betaMs?: number;
  readonly latencyMs?: readonly number[] | Readonly<Record<string, number>>;
  readonly fills?: number;
  readonly cacheUse?: number;
  readonly bandwidthUse?: number;
  readonly dynamic?: DynamicEntry;
  readonly sloP99?: number;
  readonly variants?: VariantsEntry;
}

export interface ZooEntry extends Common {
  readonly zoo: string;
  readonly only?: readonly string[];
  readonly batching?: "strong" | "weak";
}

interface Common {
  readonly sloMs?: number;
  readonly batchMax?: number;
  readonly weight?: number;
  readonly count?: number;
  readonly classes?: readonly {
    readonly sloMs: number;
    readonly share: number;
    readonly costs?: readonly CostEntry[];
  }[];
  readonly costs?: readonly CostEntry[];
}

export type Popularity = "equal" | "weights" | `zipf:${string}` | readonly number[];

/** A model without its share, which popularity adds. */
export interface Stream {
  readonly model: Omit<ScenarioModel, "share">;
  readonly weight: number;
  readonly path: YamlPath;
}

export const STREAMS_MAX = 4096;
/** Limit of batch sizes if neither `batchMax` nor a table nor the SLO gives a smaller one. */
const BATCH_MAX = 1024;

/** Reads the zoos that `models` names, relative to `origin`. Invalid entries are reported and left out. */
export async function readStreams(
  models: ZooEntry | readonly (ModelEntry | ZooEntry)[],
  origin: string,
  problems: Problem[],
): Promise<readonly Stream[]> {
  const entries = Array.isArray(models) ? (models as readonly (ModelEntry | ZooEntry)[]) : [models as ZooEntry];
  const streams: Stream[] = [];
  for (const [i, entry] of entries.entries()) {
    const path = Array.isArray(models) ? ["models", i] : ["models"];
    if ("zoo" in entry) {
      for (const model of await zooModels(entry, path, origin, problems))
        streams.push(...streamsOf(model, path, problems));
    } else if (entry.dynamic !== undefined && entry.variants === undefined)
      streams.push(...(await dynamicStreams({ ...entry, dynamic: entry.dynamic }, path, origin, problems)));
    else if (entry.variants !== undefined)
      streams.push(...variantStreams({ ...entry, variants: entry.variants }, path, problems));
    else streams.push(...streamsOf(entry, path, problems));
    if (streams.length > STREAMS_MAX) {
      problems.push({ path, text: `there are over ${STREAMS_MAX} models from here on; lower count` });
      return [];
    }
  }
  const firsts = new Set<string>();
  for (const { model, path } of streams) {
    if (firsts.has(model.name))
      problems.push({ path, text: `there are two models "${model.name}"; give one another name` });
    firsts.add(model.name);
  }
  return streams;
}

async function zooModels(entry: ZooEntry, path: YamlPath, origin: string, problems: Problem[]): Promise<ModelEntry[]> {
  const { zoo, only, batching, ...common } = entry;
  const file = join(dirname(origin), zoo);
  let models: readonly ZooModel[];
  try {
    models = parseZoo(await readFile(file, "utf8"), file);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const text = code === undefined ? message : `${file} can't be read (${code}); give a path relative to this file`;
    problems.push({ path: [...path, "zoo"], text });
    return [];
  }
  for (const [i, name] of (only ?? []).entries()) {
    if (models.some((model) => model.name === name)) continue;
    const known = models.map((model) => model.name).join(", ");
    problems.push({ path: [...path, "only", i], text: `${zoo} has no "${name}"; it has ${known}` });
  }
  const chosen = models.filter(
    ({ name, alphaMs, betaMs }) =>
      (only === undefined || only.includes(name)) &&
      (batching === undefined || betaMs / alphaMs > 2 === (batching === "strong")),
  );
  return chosen.map((model) => ({ ...model, ...common }));
}

function streamsOf(entry: ModelEntry, path: YamlPath, problems: Problem[]): Stream[] {
  const before = problems.length;
  if (entry.sloP99 !== undefined) {
    const text = "a static model has no percentiles; give sloMs, or say under dynamic what requests take";
    problems.push({ path: [...path, "sloP99"], at: "key", text });
  }
  const classes = classesOf(entry, path, problems);
  const slos = [classes.slo, ...classes.classes.map(({ slo }) => slo)];
  const profile = profileOf(entry, Math.max(...slos) as Micros, path, problems);
  const parts = partsOf(entry, path, problems);
  if (profile === undefined || problems.length > before) return [];
  if (parts === undefined) return counted(entry, { profile, ...classes }, path);
  // On a whole accelerator, smaller batches take as long as those that fill it.
  return counted(entry, { profile: wholeProfile(parts, profile.batchSizeMax), parts, ...classes }, path);
}

/** One stream for all variants, or one for each. */
function variantStreams(
  { variants, ...entry }: ModelEntry & { readonly variants: VariantsEntry },
  path: YamlPath,
  problems: Problem[],
): Stream[] {
  const prefix = lineOf(entry, path, problems);
  if (hasVariantProblem(entry, path, problems) || prefix === undefined) return [];
  const alone = aloneLine(prefix, variants);
  if (variants.served === "apart")
    return streamsOf({ ...entry, ...alone, count: (entry.count ?? 1) * variants.count }, path, problems);
  const before = problems.length;
  const classes = classesOf(entry, path, problems);
  if (problems.length > before) return [];
  const slos = [classes.slo, ...classes.classes.map(({ slo }) => slo)];
  const line = { alpha: 1000 * alone.alphaMs, beta: 1000 * alone.betaMs };
  const most = entry.batchMax ?? largestWithin(line, Math.max(...slos) as Micros);
  const all = { ...entry, weight: (entry.weight ?? 1) * variants.count };
  return counted(all, { profile: togetherProfile(prefix, variants, most), ...classes }, path);
}

function partsOf(
  { fills, cacheUse = 0, bandwidthUse = 0, alphaMs, betaMs }: ModelEntry,
  path: YamlPath,
  problems: Problem[],
): ModelParts | undefined {
  if (fills === undefined) return undefined;
  if (alphaMs === undefined || betaMs === undefined) {
    problems.push({ path: [...path, "fills"], at: "key", text: "needs alphaMs and betaMs, of batches that fill it" });
    return undefined;
  }
  return { alpha: 1000 * alphaMs, beta: 1000 * betaMs, fills, cacheUse, bandwidthUse };
}

function counted(
  { name, count = 1, weight = 1 }: ModelEntry,
  model: Omit<Stream["model"], "name">,
  path: YamlPath,
): Stream[] {
  return Array.from({ length: count }, (_, i) => ({
    model: { ...model, name: count === 1 ? name : `${name}-${i + 1}` },
    weight,
    path,
  }));
}

async function dynamicStreams(
  entry: ModelEntry & { readonly dynamic: DynamicEntry },
  path: YamlPath,
  origin: string,
  problems: Problem[],
): Promise<Stream[]> {
  const before = problems.length;
  for (const key of ["alphaMs", "betaMs", "latencyMs", "batchMax", "classes", "fills"] as const) {
    if (entry[key] === undefined) continue;
    const instead = { batchMax: "batchSizes", classes: "apps with sloMs" }[key as string] ?? "c0Ms and c1";
    const text = `doesn't go with dynamic; give ${instead} there`;
    problems.push({ path: [...path, key], at: "key", text });
  }
  const dynamic = await readDynamic(entry.dynamic, [...path, "dynamic"], { origin, problems });
  if (dynamic === undefined) return [];
  const slo = dynamicSlo(entry, dynamic, path, problems);
  const costs = costsOf(entry, path, problems);
  if (problems.length > before) return [];
  return counted(entry, { profile: meanProfile(dynamic), slo, classes: [], ...costs, dynamic }, path);
}

function dynamicSlo({ sloMs, sloP99 }: ModelEntry, dynamic: DynamicLoad, path: YamlPath, problems: Problem[]): Micros {
  if (sloMs !== undefined && sloP99 !== undefined)
    problems.push({ path: [...path, "sloP99"], text: "give either sloMs or sloP99" });
  if (sloMs !== undefined) return millis(sloMs);
  if (sloP99 !== undefined) return micros(Math.round(sloP99 * soloQuantile(dynamic, 0.99)));
  const own = dynamic.apps.flatMap(({ slo }) => (slo === undefined ? [] : [slo]));
  if (own.length === dynamic.apps.length) return Math.max(...own) as Micros;
  problems.push({ path, text: `"sloMs" is missing; give milliseconds from arrival to answer, or sloP99, such as 3` });
  return millis(1);
}

function classesOf(
  { sloMs, classes = [], ...entry }: ModelEntry,
  path: YamlPath,
  problems: Problem[],
): Pick<ScenarioModel, "slo" | "classes" | "costs"> {
  const total = classes.reduce((sum, { share }) => sum + share, 0);
  if (total > 1 + 1e-9) {
    problems.push({ path: [...path, "classes"], text: `the shares come to ${round(total)}; they can't exceed 1` });
  }
  const all = classes.map((each, i) => ({
    slo: millis(each.sloMs),
    share: each.share,
    ...costsOf(each, [...path, "classes", i], problems),
  }));
  const costs = costsOf(entry, path, problems);
  if (sloMs !== undefined) return { slo: millis(sloMs), classes: all, ...costs };
  const [first, ...rest] = all;
  if (first === undefined) {
    problems.push({ path, text: `"sloMs" is missing; give milliseconds from arrival to answer, such as 25` });
  } else if (total < 1 - 1e-9) {
    const text = `the shares come to ${round(total)}; give the rest's SLO as sloMs of the model, or shares that come to 1`;
    problems.push({ path: [...path, "classes"], text });
  }
  // The first class gets the requests that the other classes leave.
  return { slo: first?.slo ?? millis(1), classes: rest, ...costs, ...(first?.costs && { costs: first.costs }) };
}

/** The latencies of a batch, in one of the forms that files use. */
export interface LatencyEntry extends Pick<ModelEntry, "alphaMs" | "betaMs" | "latencyMs" | "batchMax"> {
  /**
   * Latency of sizes that `latencyMs` leaves out. `interpolate` (default): on the line; `pad-up`: that of the next
   * larger size, if only listed sizes are compiled.
   */
  readonly between?: "interpolate" | "pad-up";
}

/**
 * Reads a latency table; undefined: it is invalid, and the problems are reported.
 * @param sloMax - the longest SLO, which bounds the batch sizes of a line
 */
export function profileOf(
  entry: LatencyEntry,
  sloMax: Micros,
  path: YamlPath,
  problems: Problem[],
): LatencyTable | undefined {
  const { alphaMs, betaMs, latencyMs } = entry;
  if (latencyMs !== undefined) {
    if (alphaMs === undefined && betaMs === undefined) return tableOf({ ...entry, latencyMs }, path, problems);
    problems.push({ path: [...path, "latencyMs"], text: "give either latencyMs, or alphaMs and betaMs" });
    return undefined;
  }
  const given = lineOf(entry, path, problems);
  if (given === undefined) return undefined;
  const line = { alpha: 1000 * given.alphaMs, beta: 1000 * given.betaMs };
  return LatencyTable.affine({ ...line, batchSizeMax: entry.batchMax ?? largestWithin(line, sloMax) });
}

/** Reads the line αb + β; undefined: it is invalid, and the problem is reported. */
export function lineOf(
  { alphaMs, betaMs }: Pick<LatencyEntry, "alphaMs" | "betaMs">,
  path: YamlPath,
  problems: Problem[],
): { alphaMs: number; betaMs: number } | undefined {
  if (alphaMs === undefined || betaMs === undefined) {
    const missing = alphaMs === undefined ? "alphaMs" : "betaMs";
    problems.push({ path, text: `"${missing}" is missing; a model needs alphaMs and betaMs, or latencyMs` });
    return undefined;
  }
  if (alphaMs + betaMs > 0) return { alphaMs, betaMs };
  problems.push({ path: [...path, "alphaMs"], text: "a batch can't take no time; give alphaMs or betaMs above 0" });
  return undefined;
}

/** The largest batch within the SLO: larger ones can't meet any, so a longer table would change nothing. */
function largestWithin({ alpha, beta }: { alpha: number; beta: number }, sloMax: Micros): number {
  const largest = alpha === 0 ? BATCH_MAX : Math.floor((sloMax - beta) / alpha);
  return Math.max(1, Math.min(BATCH_MAX, largest));
}

function tableOf(
  { latencyMs, batchMax, between }: LatencyEntry & Required<Pick<LatencyEntry, "latencyMs">>,
  path: YamlPath,
  problems: Problem[],
): LatencyTable | undefined {
  const sizes = Array.isArray(latencyMs) ? latencyMs.map((_, i) => i + 1) : Object.keys(latencyMs).map(Number);
  const latencies = Object.values<number>(latencyMs);
  const largest = Math.max(...sizes);
  if (batchMax !== undefined && batchMax > largest) {
    const text = `${batchMax} is beyond the table, which ends at ${largest}; nothing is extrapolated`;
    problems.push({ path: [...path, "batchMax"], text });
    return undefined;
  }
  if (largest > 65_536) {
    problems.push({ path: [...path, "latencyMs"], text: `a batch of ${largest} is too large; 65536 is the limit` });
    return undefined;
  }
  const points = sizes.map((batchSize, i) => ({ batchSize, latency: millis(latencies[i]!) }));
  const limit = batchMax === undefined ? {} : { batchSizeMax: batchMax };
  return LatencyTable.fromPoints(points, { ...limit, ...(between !== undefined && { between }) });
}

/** Shares that sum to 1, in the order of the streams; invalid popularity is reported, and gives equal shares. */
export function sharesOf(
  popularity: Popularity,
  streams: readonly Stream[],
  path: YamlPath,
  problems: Problem[],
): readonly number[] {
  const weights = weightsOf(popularity, streams, path, problems);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (total > 0) return weights.map((weight) => weight / total);
  if (streams.length > 0) problems.push({ path, text: "every weight is 0; give one model a weight above 0" });
  return streams.map(() => 1 / streams.length);
}

function weightsOf(
  popularity: Popularity,
  streams: readonly Stream[],
  path: YamlPath,
  problems: Problem[],
): readonly number[] {
  if (typeof popularity !== "string") {
    if (popularity.length === streams.length) return popularity;
    problems.push({ path, text: `${popularity.length} numbers for ${streams.length} models; give one for each` });
    return streams.map(() => 1);
  }
  if (popularity === "weights") return streams.map(({ weight }) => weight);
  const exponent = popularity === "equal" ? 0 : Number(popularity.slice("zipf:".length));
  return streams.map((_, i) => (i + 1) ** -exponent);
}

const round = (value: number): number => Number(value.toPrecision(6));
