/**
 * Reads the `dynamic` part of a model in a scenario file into the simulator's load. docs/simulator.md explains the
 * keys.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  type DynamicApp,
  type DynamicLoad,
  type Lengths,
  gammaLengths,
  lognormalLengths,
  modeCentres,
  profiledHistogram,
  replayedLengths,
} from "@tutti/simulator";
import { millis } from "@tutti/units";
import { type CostEntry, costsOf } from "./cost-steps.ts";
import type { Problem, YamlPath } from "./located-yaml.ts";

/** The schema has checked these. */
export interface LengthsEntry {
  readonly modes?: number;
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly sigmaMs?: number;
  readonly peaks?: readonly number[];
  readonly meanMs?: number;
  readonly p99Ms?: number;
  readonly form?: "lognormal" | "gamma";
  readonly replay?: string | readonly number[];
  readonly constantMs?: number;
}

export interface DynamicEntry {
  readonly c0Ms: number;
  readonly c1: number;
  readonly costsFromOne?: boolean;
  readonly batchSizes?: readonly number[];
  readonly hints?: "none" | "exact";
  readonly lengths?: LengthsEntry;
  readonly apps?: readonly {
    readonly name: string;
    readonly share?: number;
    readonly sloMs?: number;
    readonly costs?: readonly CostEntry[];
    readonly lengths: LengthsEntry;
  }[];
}

/** The defaults that the schema declares; `scenario-file.test.ts` compares the two. */
export const DYNAMIC_DEFAULTS = { costsFromOne: false, batchSizes: [1, 2, 4, 8, 16], hints: "none" } as const;
/** Maximum number of lines to replay; more lines add nothing to a distribution. */
const REPLAYED_MAX = 100_000;

/** Origin of the entry, and the problems found. */
interface Reading {
  readonly origin: string;
  readonly problems: Problem[];
}

/** Reads a dynamic load; undefined: it is invalid, and the problems are reported. */
export async function readDynamic(
  entry: DynamicEntry,
  path: YamlPath,
  reading: Reading,
): Promise<DynamicLoad | undefined> {
  const { problems } = reading;
  const before = problems.length;
  const sizes = entry.batchSizes ?? DYNAMIC_DEFAULTS.batchSizes;
  const falls = sizes.findIndex((size, i) => i > 0 && size <= sizes[i - 1]!);
  if (falls >= 0) {
    const text = `${sizes[falls]} comes after ${sizes[falls - 1]}; put batch sizes in ascending order, each once`;
    problems.push({ path: [...path, "batchSizes", falls], text });
  }
  const apps = await readApps(entry, path, reading);
  if (problems.length > before) return undefined;
  return {
    apps,
    costs: { c0: 1000 * entry.c0Ms, c1: entry.c1, fromOne: entry.costsFromOne ?? DYNAMIC_DEFAULTS.costsFromOne },
    sizes,
    hints: entry.hints ?? DYNAMIC_DEFAULTS.hints,
  };
}

async function readApps({ lengths, apps }: DynamicEntry, path: YamlPath, reading: Reading): Promise<DynamicApp[]> {
  const { problems } = reading;
  if ((lengths === undefined) === (apps === undefined)) {
    const text = lengths === undefined ? `"lengths" or "apps" is missing` : "give either lengths or apps";
    problems.push({ path: lengths === undefined ? path : [...path, "apps"], text });
    return [];
  }
  if (lengths !== undefined) {
    const all = await readLengths(lengths, [...path, "lengths"], reading);
    return all === undefined ? [] : appPerMode(all);
  }
  const total = apps!.reduce((sum, { share = 1 }) => sum + share, 0);
  const read: DynamicApp[] = [];
  for (const [i, { name, share = 1, sloMs, lengths: own, ...entry }] of apps!.entries()) {
    if (apps!.findIndex((app) => app.name === name) < i)
      problems.push({ path: [...path, "apps", i, "name"], text: `there are two applications "${name}"; rename one` });
    const drawn = await readLengths(own, [...path, "apps", i, "lengths"], reading);
    if (drawn === undefined) continue;
    const slo = sloMs === undefined ? {} : { slo: millis(sloMs) };
    const costs = costsOf(entry, [...path, "apps", i], problems);
    read.push({ name, share: share / total, ...slo, ...costs, lengths: drawn, alone: profiledHistogram(drawn) });
  }
  return read;
}

/** Splits modes into applications of the model, as in Orloj's workloads. */
function appPerMode(lengths: Lengths): DynamicApp[] {
  if (lengths.kind !== "modes") return [{ name: "app", share: 1, lengths, alone: profiledHistogram(lengths) }];
  return lengths.centres.map((centre, i) => {
    const own: Lengths = { ...lengths, centres: [centre], weights: [1] };
    return { name: `mode-${i + 1}`, share: lengths.weights[i]!, lengths: own, alone: profiledHistogram(own) };
  });
}

/** Kinds of distributions by their main key, with the keys that they need and may have. */
const KINDS = {
  modes: { needs: ["fromMs", "toMs", "sigmaMs"], may: ["peaks"] },
  meanMs: { needs: ["p99Ms"], may: ["form"] },
  replay: { needs: [], may: [] },
  constantMs: { needs: [], may: [] },
} as const satisfies Partial<Record<keyof LengthsEntry, object>>;

async function readLengths(entry: LengthsEntry, path: YamlPath, reading: Reading): Promise<Lengths | undefined> {
  const { problems } = reading;
  const kinds = (Object.keys(KINDS) as (keyof typeof KINDS)[]).filter((kind) => entry[kind] !== undefined);
  const [kind, second] = kinds;
  if (kind === undefined) {
    problems.push({ path, text: "no distribution; give modes, meanMs with p99Ms, replay or constantMs" });
    return undefined;
  }
  const { needs, may } = KINDS[kind];
  const missing = needs.find((key) => entry[key] === undefined);
  if (missing !== undefined)
    problems.push({ path, text: `"${missing}" is missing; ${kind} goes with ${needs.join(", ")}` });
  const known: readonly string[] = [kind, ...needs, ...may];
  const stray = second ?? Object.keys(entry).find((key) => !known.includes(key));
  if (stray !== undefined)
    problems.push({
      path: [...path, stray],
      at: "key",
      text: `"${stray}" doesn't go with ${kind}; remove one of the two`,
    });
  if (missing !== undefined || stray !== undefined) return undefined;
  if (kind === "constantMs") return { kind: "constant", at: millis(entry.constantMs!) };
  if (kind === "replay") return readReplay(entry.replay!, [...path, "replay"], reading);
  return kind === "modes" ? readModes(entry, path, problems) : readSkewed(entry, path, problems);
}

function readModes(
  { modes = 1, fromMs = 0, toMs = 0, sigmaMs = 0, peaks }: LengthsEntry,
  path: YamlPath,
  problems: Problem[],
): Lengths | undefined {
  if (toMs < fromMs) {
    problems.push({ path: [...path, "toMs"], text: `${toMs} is before fromMs, ${fromMs}; swap them` });
    return undefined;
  }
  if (peaks !== undefined && peaks.length !== modes) {
    problems.push({ path: [...path, "peaks"], text: `${peaks.length} numbers for ${modes} modes; give one for each` });
    return undefined;
  }
  const total = peaks?.reduce((sum, peak) => sum + peak, 0) ?? modes;
  return {
    kind: "modes",
    centres: modeCentres(modes, 1000 * fromMs, 1000 * toMs),
    sigma: 1000 * sigmaMs,
    weights: Array.from({ length: modes }, (_, i) => (peaks?.[i] ?? 1) / total),
  };
}

function readSkewed(
  { meanMs = 0, p99Ms = 0, form = "lognormal" }: LengthsEntry,
  path: YamlPath,
  problems: Problem[],
): Lengths | undefined {
  const byForm = form === "gamma" ? gammaLengths : lognormalLengths;
  const lengths = byForm(1000 * meanMs, 1000 * p99Ms);
  if (lengths === undefined) {
    const text = `no ${form} distribution has a mean of ${meanMs} and a 99th percentile of ${p99Ms}; give a p99Ms above the mean, and less than ${form === "gamma" ? "20" : "14.9"} times it`;
    problems.push({ path: [...path, "p99Ms"], text });
  }
  return lengths;
}

async function readReplay(
  replay: string | readonly number[],
  path: YamlPath,
  { origin, problems }: Reading,
): Promise<Lengths | undefined> {
  if (typeof replay !== "string") return replayedLengths(replay.map((length) => millis(length)));
  const file = join(dirname(origin), replay);
  let lines: string[];
  try {
    lines = (await readFile(file, "utf8")).split("\n");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    problems.push({ path, text: `${file} can't be read (${code}); give a path relative to this file` });
    return undefined;
  }
  const lengths: number[] = [];
  for (const [i, line] of lines.entries()) {
    const text = line.trim();
    if (text === "" || text.startsWith("#")) continue;
    const length = Number(text);
    if (!(length > 0 && length <= 3_600_000)) {
      problems.push({ path, text: `${file}:${i + 1}: "${text}" is no length; write milliseconds, one a line` });
      return undefined;
    }
    lengths.push(millis(length));
  }
  if (lengths.length > 0 && lengths.length <= REPLAYED_MAX) return replayedLengths(lengths);
  problems.push({ path, text: `${file} has ${lengths.length} lengths; give 1 to ${REPLAYED_MAX}` });
  return undefined;
}
