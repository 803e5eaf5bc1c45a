/**
 * A figure: the points that it needs run, and how to draw them. Points name shipped scenario files, so that a reader
 * can run every one of them by hand: each result has its command, `commandOf`, beside it.
 */
import {
  type ComparedMix,
  type Goodput,
  type LeastOfPhase,
  type MinGpus,
  type SimulationResult,
  policyNames,
} from "@tutti/simulator";
import type { EChartsCoreOption } from "echarts/core";
import type { TimelineRecording } from "../timeline-recorder.ts";

/** A scenario of a file, with values that override it as on a command line. */
export interface Point {
  /** File name without `.yaml`. */
  readonly file: string;
  /** A label for each axis of the file's family. */
  readonly set?: Readonly<Record<string, string>>;
  readonly policy: string;
  readonly rate?: number;
  /** In place of a rate, as `--load`. */
  readonly load?: number;
  readonly gpus?: number;
  readonly seed?: number;
  /** Number of seeds, from `seed` on, over which the result is the mean, as `--seeds`; each search uses one of them. */
  readonly seeds?: number;
  /** Precision of a search in percent, as `--precision`. Default: 1. */
  readonly precision?: number;
  /** Duration of the arrivals in seconds, warm-up included. Default: that of the scale. */
  readonly durationS?: number;
}

export interface RecordedRun {
  readonly result: SimulationResult;
  readonly recording: TimelineRecording;
}

/** A run in which the number of accelerators changes, with the values that it is compared with. */
export interface PlannedRun {
  readonly result: SimulationResult;
  /** Good requests per second of each model, epoch by epoch as `result.planner.windows`. */
  readonly goodByModel: readonly { readonly name: string; readonly goodRps: readonly number[] }[];
  /** Accelerators of a planner that knows all arrivals, phase by phase. */
  readonly least: readonly LeastOfPhase[];
  readonly gpusMax: number;
}

/**
 * Runs points, as many at a time as there are cores; equal points only once. Results are in the order of the points.
 */
export interface Bench {
  simulate(points: readonly Point[]): Promise<readonly SimulationResult[]>;
  goodput(points: readonly Point[]): Promise<readonly Goodput[]>;
  minGpus(points: readonly Point[]): Promise<readonly MinGpus[]>;
  record(points: readonly Point[]): Promise<readonly RecordedRun[]>;
  planned(points: readonly Point[]): Promise<readonly PlannedRun[]>;
  compareMixes(points: readonly MixPoint[]): Promise<readonly ComparedMix[]>;
}

/** Amount of work of a figure: `quick` shows that it can be drawn, `full` gives results that may be quoted. */
export interface Scale {
  readonly name: "full" | "quick";
  /** Duration of points that don't set one. */
  readonly durationS: number;
}

export const FULL: Scale = { name: "full", durationS: 21 };
export const QUICK: Scale = { name: "quick", durationS: 2 };

export const pick = <T>(scale: Scale, full: T, quick: T): T => (scale.name === "full" ? full : quick);

export type Verb = "simulate" | "goodput" | "min-gpus";

/** A random mix and the policies that the default one is compared with on it. */
export interface MixPoint {
  readonly seed: number;
  /** Whether its models leave part of an accelerator idle. */
  readonly parts: boolean;
  readonly rivals: readonly string[];
}

interface RowValue {
  /** Measured quantity, in words that make sense without the figure. */
  readonly what: string;
  readonly policy: string;
  /** Null where nothing could be found: no rate is good, or no number of accelerators suffices. */
  readonly ours: number | null;
  readonly unit: string;
  /** The paper's value or statement; empty where it has none. */
  readonly paper: string;
}

/** A value and how it was found: by a scenario of a file, or by random mixes of one kind from a seed on. */
export type Row = RowValue &
  ({ readonly verb: Verb; readonly point: Point } | { readonly mixes: number; readonly first: MixPoint });

export interface Chart {
  /** Name of the SVG file, without `.svg`. */
  readonly name: string;
  readonly option: EChartsCoreOption;
  /** Size in pixels. Default: the size of all pictures. */
  readonly size?: { readonly width: number; readonly height: number };
}

export interface Drawing {
  readonly charts: readonly Chart[];
  readonly rows: readonly Row[];
}

export interface Figure {
  /** Name for `--only`. */
  readonly name: string;
  readonly title: string;
  /** The paper's figure, and what it shows. */
  readonly paper: string;
  draw(bench: Bench, scale: Scale): Promise<Drawing>;
}

/** Where the command finds the scenarios, seen from the root of the repository. */
export const SCENARIOS = "test/bench/scenarios";

export function commandOf(verb: Verb, point: Point, scale: Scale): string {
  const { file, set = {}, policy, rate, load, gpus, seed, seeds, precision } = point;
  const options: string[] = [];
  for (const [axis, label] of Object.entries(set)) options.push(`--set ${quoted(`${axis}=${label}`)}`);
  options.push(`--policy ${policy}`);
  if (gpus !== undefined) options.push(`--gpus ${gpus}`);
  if (rate !== undefined) options.push(`--rate ${rate}`);
  if (load !== undefined) options.push(`--load ${load}`);
  if (seed !== undefined) options.push(`--seed ${seed}`);
  if (seeds !== undefined) options.push(`--seeds ${seeds}`);
  if (precision !== undefined) options.push(`--precision ${precision}`);
  options.push(`--duration ${point.durationS ?? scale.durationS}`);
  const command = verb === "simulate" ? "simulate" : "goodput";
  return `tutti ${command} ${SCENARIOS}/${file}.yaml ${verb === "min-gpus" ? "--min-gpus " : ""}${options.join(" ")}`;
}

export function commandOfRow(row: Row, scale: Scale): string {
  if ("point" in row) return commandOf(row.verb, row.point, scale);
  const { seed, parts, rivals } = row.first;
  return `tutti compare --random ${row.mixes} --seed ${seed} ${parts ? "--parts " : ""}--rivals ${rivals.join(",")}`;
}

const quoted = (text: string): string => (/^[\w=.:-]+$/.test(text) ? text : `'${text}'`);

export interface System {
  readonly policy: string;
  /** Name that readers know the system by. */
  readonly label: string;
}

const SYSTEMS: readonly System[] = [
  { policy: "default", label: "Tutti" },
  { policy: "deferred", label: "deferred (Symphony)" },
  { policy: "eager", label: "eager" },
  { policy: "clockwork", label: "Clockwork-like" },
  { policy: "nexus", label: "Nexus-like" },
  { policy: "nexus:8", label: "Nexus-like, 8 frontends" },
  { policy: "fractions", label: "fractions (gpulet-like)" },
  { policy: "shepherd", label: "Shepherd-like" },
  { policy: "clipper", label: "Clipper-like" },
  { policy: "triton", label: "Triton-like" },
  { policy: "capped", label: "work-conserving, best cap" },
  { policy: "orloj", label: "Orloj" },
  { policy: "orloj:urgent", label: "Orloj, most urgent first" },
  { policy: "knows-lengths", label: "knows lengths, greedy" },
  { policy: "knows-lengths:similar", label: "knows lengths, alike together" },
  { policy: "knows-lengths:throughput", label: "knows lengths, most per time" },
];

/** The given policies that this build has, in the given order. */
export function systems(...policies: readonly string[]): readonly System[] {
  const known = new Set(policyNames());
  return policies
    .filter((policy) => known.has(policy.split(":")[0]!))
    .map((policy) => SYSTEMS.find((system) => system.policy === policy) ?? { policy, label: policy });
}

/** The systems of most of the paper's figures. */
export const baselines = (): readonly System[] =>
  systems("default", "deferred", "eager", "clockwork", "nexus", "shepherd");

export interface Series {
  readonly system: System;
  readonly points: readonly Point[];
}

/** Runs one goodput search for each point. @returns results by series */
export async function goodputs(bench: Bench, series: readonly Series[]): Promise<readonly (readonly Goodput[])[]> {
  const all = await bench.goodput(series.flatMap(({ points }) => points));
  let next = 0;
  return series.map(({ points }) => all.slice(next, (next += points.length)));
}
