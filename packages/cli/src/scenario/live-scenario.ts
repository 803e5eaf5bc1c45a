/** Makes a scenario of what was seen of a running cluster (docs/simulator.md has the keys). Pure. */
import type { MeasuredDelays } from "@tutti/admin/operators";
import { LatencyTable } from "@tutti/profile";
import { type ModelRunTimes, type ModelSpec, type ModelStatus, type ProfilePoints, isModelName } from "@tutti/protocol";
import { measuredNetwork } from "@tutti/simulator";
import type { Micros } from "@tutti/units";
import { Document, isScalar, visit } from "yaml";
import type { ObservedModel } from "./observed-load.ts";

export interface SeenModel {
  /** As requests name it: also a version of a model, or a member of a family. */
  readonly name: string;
  /** The model that serves these requests. */
  readonly spec: Pick<ModelSpec, "slo" | "batchSizeMax">;
  readonly status: Pick<ModelStatus, "profiles" | "byType">;
  readonly times: Pick<ModelRunTimes, "learned" | "buckets"> | undefined;
}

export interface SeenCluster {
  readonly cluster: string;
  /** When, in ISO 8601. */
  readonly at: string;
  /** Types of the accelerators that serve, each once for each of them. */
  readonly accelerators: readonly string[];
  readonly subClusters: number;
  /** Undefined: none, and plans are made with the latencies as they are. */
  readonly delays: MeasuredDelays | undefined;
  /** Longest turns of the scheduling processes, each of about a second. */
  readonly turnsUs: readonly number[];
  /** Those that have a profile. */
  readonly models: readonly SeenModel[];
}

/** The requests: those of so many seconds, or a recording, by its name beside the scenario. */
export type SeenLoad =
  | { readonly seconds: number; readonly models: readonly ObservedModel[]; readonly burstiness: number | undefined }
  | { readonly trace: string; readonly models: readonly string[] };

export interface LiveScenario {
  /** The scenario file's content. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly remarks: readonly string[];
  /** Names that requests had and that nothing is known of. */
  readonly unknown: readonly string[];
}

/** Turns from this length on count as standstills. */
const STALL_US_MIN = 500;
/** Burstiness that is not told from that of Poisson arrivals. */
const POISSON = { from: 0.75, to: 1.35 } as const;
/** Spread of run times (p90 over p50) below which no run counts as slow. */
const SPREAD_MIN = 1.05;
/** Share of runs that are slow: the middle of their times is then the 90th percentile of all. */
const SLOW_SHARE = 0.2;
/** Profiles of more points are written at doublings of the batch size. */
const POINTS_MAX = 16;

export function liveScenario(seen: SeenCluster, load: SeenLoad): LiveScenario {
  const asked = load.models.map((one) => (typeof one === "string" ? one : one.name));
  const known = new Map(seen.models.map((model) => [model.name, model]));
  const unknown = asked.filter((name) => !known.has(name));
  const observed = new Map(load.models.flatMap((one) => (typeof one === "string" ? [] : [[one.name, one]])));
  const isAsked = asked.length > unknown.length;
  const models = isAsked ? asked.flatMap((name) => known.get(name) ?? []) : seen.models;
  const silent = isAsked ? seen.models.filter(({ name }) => !asked.includes(name)).map(({ name }) => name) : [];
  const types = typesOf(seen.accelerators, models);
  const reference = types?.reduce((a, b) => (b.times < a.times ? b : a)).name;
  const subClusters = types === undefined ? Math.min(seen.subClusters, models.length, seen.accelerators.length) : 1;
  const noise = types === undefined ? noiseOf(seen.turnsUs, models) : undefined;
  const document = {
    ...(types === undefined ? { gpus: Math.max(1, seen.accelerators.length) } : { types }),
    ...arrivalsOf(load, models),
    ...(seen.delays !== undefined && { network: networkOf(seen.delays) }),
    ...(noise !== undefined && { noise }),
    ...(types === undefined && seen.delays !== undefined && { profiles: "learned" }),
    ...(subClusters > 1 && { subClusters }),
    models: models.map((model) => entryOf(model, reference, isAsked ? observed.get(model.name) : undefined)),
  };
  return { document, unknown, remarks: remarksOn({ silent, unknown, models, isAsked, load }) };
}

const NAMES_SHOWN = 20;

interface Remarked {
  readonly silent: readonly string[];
  readonly unknown: readonly string[];
  readonly models: readonly SeenModel[];
  readonly isAsked: boolean;
  readonly load: SeenLoad;
}

function remarksOn({ silent, unknown, models, isAsked, load }: Remarked): string[] {
  const buckets = models.filter(({ status }) => status.profiles.length > 1).map(({ name }) => name);
  const dynamic = models.filter(({ times }) => times?.buckets.some(({ kind }) => kind === "dynamic") === true);
  const told = (text: string, names: readonly string[]): string[] => {
    const shown = names.filter(isModelName); // publishers' subjects may hold anything
    const more = shown.length > NAMES_SHOWN ? ", …" : "";
    return shown.length === 0 ? [] : [`${text}: ${shown.slice(0, NAMES_SHOWN).join(", ")}${more}`];
  };
  return [
    ...(isAsked || !("seconds" in load)
      ? []
      : ["Nobody asked for anything in that time: give a rate, here or with --rate"]),
    ...told("Served, but not asked for in that time", silent),
    ...told("Asked for, but not served here, or a pipeline: describe it, or leave its requests out", unknown),
    ...told("With the latencies of its largest bucket", buckets),
    ...told(
      "Its time depends on the request; here all take that of a typical one",
      dynamic.map(({ name }) => name),
    ),
  ];
}

function entryOf(
  { name, spec, status }: SeenModel,
  type: string | undefined,
  observed: ObservedModel | undefined,
): Record<string, unknown> {
  const points = pointsOf(status, type);
  const [first, ...others] = observed?.slos ?? [];
  return {
    name,
    ...(observed !== undefined && { weight: rounded(observed.rate) }),
    sloMs: ms(first?.slo ?? spec.slo),
    ...(others.length > 0 && { classes: others.map(({ slo, share }) => ({ sloMs: ms(slo), share: rounded(share) })) }),
    batchMax: Math.min(spec.batchSizeMax, points.at(-1)!.batchSize),
    latencyMs: new Map(fewOf(points).map(({ batchSize, latency }) => [batchSize, ms(latency)])),
  };
}

/** The profile of the last bucket, which is the largest: the scenario is rather too slow than too fast. */
function pointsOf({ profiles, byType }: SeenModel["status"], type?: string): ProfilePoints {
  const own = byType?.find((one) => one.type === type);
  return (own?.live ?? own?.profiles ?? profiles).at(-1)!;
}

function fewOf(points: ProfilePoints): ProfilePoints {
  if (points.length <= POINTS_MAX) return points;
  const largest = points.at(-1)!.batchSize;
  return points.filter(({ batchSize }) => Number.isInteger(Math.log2(batchSize)) || batchSize === largest);
}

/**
 * Types with how many times as long as on the fastest runs take there; undefined: all are alike, as far as is known.
 */
function typesOf(
  accelerators: readonly string[],
  models: readonly SeenModel[],
): { name: string; gpus: number; times: number }[] | undefined {
  const names = [...new Set(accelerators)];
  const apart = models.filter(({ status }) => names.every((name) => status.byType?.some(({ type }) => type === name)));
  if (names.length < 2 || apart.length === 0) return undefined;
  const relative = names.map((name) =>
    mean(apart.map(({ status }) => latencyOn(status, name) / latencyOn(status, names[0]!))),
  );
  const fastest = Math.min(...relative);
  return names.map((name, i) => ({
    name,
    gpus: accelerators.filter((type) => type === name).length,
    times: rounded(relative[i]! / fastest),
  }));
}

/** Latency of the largest batch that every type has. */
function latencyOn(status: SeenModel["status"], type: string): number {
  const largest = Math.min(...status.byType!.map((one) => pointsOf(status, one.type).at(-1)!.batchSize));
  return LatencyTable.fromPoints(pointsOf(status, type)).latency(largest);
}

function arrivalsOf(load: SeenLoad, models: readonly SeenModel[]): Record<string, unknown> {
  if ("trace" in load) return { arrivals: { process: "trace", file: load.trace } };
  const rate = load.models.reduce(
    (sum, one) => (models.some(({ name }) => name === one.name) ? sum + one.rate : sum),
    0,
  );
  if (rate === 0) return {};
  return { rate: rounded(rate), arrivals: processOf(load.burstiness ?? 1) };
}

const processOf = (burstiness: number): Record<string, unknown> =>
  burstiness >= POISSON.from && burstiness <= POISSON.to
    ? { process: "poisson" }
    : { process: "gamma", shape: rounded(Math.min(100, Math.max(0.01, 1 / burstiness)), 2) };

function networkOf(delays: MeasuredDelays): Record<string, number> {
  const { arrive = 0, gather = 0, ctrl, respond, jitter } = measuredNetwork(delays);
  return { dArriveUs: arrive, gatherUs: gather, dCtrlUs: ctrl, dRespUs: respond, jitter };
}

/** Standstills are the longest turn of each second of a scheduling process, while which nothing else is heard. */
function noiseOf(turnsUs: readonly number[], models: readonly SeenModel[]): Record<string, unknown> | undefined {
  const stalls = turnsUs.filter((us) => us >= STALL_US_MIN).sort((a, b) => a - b);
  const at = (share: number): number => ms(stalls[Math.min(stalls.length - 1, Math.floor(share * stalls.length))]!);
  const factor = slowFactor(models);
  if (stalls.length === 0 && factor === undefined) return undefined;
  return {
    ...(stalls.length > 0 && {
      scope: "scheduler",
      stalls: { everyMs: rounded((1_000 * turnsUs.length) / stalls.length), medianMs: at(0.5), p99Ms: at(0.99) },
    }),
    ...(factor !== undefined && { slow: { share: SLOW_SHARE, factor } }),
  };
}

/** How many times as long slow runs take at most, by the quantiles of recent runs of all models. */
function slowFactor(models: readonly SeenModel[]): number | undefined {
  const spreads = models.flatMap(({ times }) => times?.learned?.sizes.flatMap(({ spread }) => spread ?? []) ?? []);
  const runs = spreads.reduce((sum, spread) => sum + spread.runs, 0);
  const above = spreads.reduce((sum, { runs: own, p50, p90 }) => sum + (p50 > 0 ? (own * p90) / p50 : own), 0) / runs;
  return above >= SPREAD_MIN ? rounded(Math.min(100, 2 * above - 1), 3) : undefined;
}

export function scenarioText({ document, remarks }: LiveScenario, { cluster, at }: SeenCluster, how: string): string {
  const yaml = new Document(document);
  visit(yaml, {
    Seq: (_, list) => void (list.flow = list.items.every(isScalar)),
    Map: (key, map) => void (map.flow = key !== null && !map.items.some(({ key: name }) => String(name) === "name")),
  });
  const head = [`The cluster ${cluster}, ${at}, by \`${how}\`: docs/simulator.md explains the keys.`, ...remarks];
  return `${head.map((line) => `# ${line}`).join("\n")}\n${yaml.toString({ lineWidth: 0 })}`;
}

const ms = (us: Micros | number): number => rounded(us / 1_000);
const rounded = (value: number, digits = 4): number => Number(value.toPrecision(digits));
const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;
