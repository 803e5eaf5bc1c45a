/**
 * Input of `tutti plan pack`, converted to the planner's streams. Times are in ms, rates in requests per ms, as in
 * docs/algorithms.md, C.
 */
import type { BatchLatency, Stream } from "@tutti/planning";
import type { LatencyTable } from "@tutti/profile";
import { millis } from "@tutti/units";
import { type Problem, type LatencyEntry, profileOf } from "@tutti/sim-report/scenarios";
import { checkNames, readPlanFile } from "./plan-file.ts";

/** The document after the schema check. */
interface PackDocument {
  readonly memoryMb?: number;
  readonly between?: "interpolate" | "pad-up";
  readonly streams: readonly StreamEntry[];
}
interface StreamEntry extends Omit<LatencyEntry, "between"> {
  readonly name: string;
  readonly rate: number;
  readonly rateBefore?: number;
  readonly sloMs: number;
  readonly memoryMb?: number;
}

export interface PackInput {
  /** By id. */
  readonly names: readonly string[];
  readonly streams: readonly Stream[];
  /** The streams at the rates of the epoch before; undefined: there was none. */
  readonly before: readonly Stream[] | undefined;
  /** Infinity: unbounded. */
  readonly memoryMb: number;
}

/** @throws {CommandError} as `readPlanFile` */
export async function readPackInput(path: string, settings?: readonly string[]): Promise<PackInput> {
  const { document, giveUpOn } = await readPlanFile<PackDocument>("pack", path, settings);
  const problems: Problem[] = [];
  checkNames("streams", document.streams, problems);
  const streams = document.streams.map((entry, id): Stream | undefined => {
    const { sloMs, rate, memoryMb } = entry;
    const { between } = document;
    const given = { ...entry, ...(between !== undefined && { between }) };
    const table = profileOf(given, millis(sloMs), ["streams", id], problems);
    if (table === undefined) return undefined;
    const latency = latencyOf(table, given);
    return { id, slo: sloMs, rate: rate / 1000, latency, memory: memoryMb ?? 0 };
  });
  giveUpOn(problems);
  const sound = streams.filter((stream) => stream !== undefined);
  const hasBefore = document.streams.some(({ rateBefore }) => rateBefore !== undefined);
  return {
    names: document.streams.map(({ name }) => name),
    streams: sound,
    before: hasBefore ? sound.map((stream) => ({ ...stream, rate: rateBefore(document, stream) })) : undefined,
    memoryMb: document.memoryMb ?? Infinity,
  };
}

/** The rate in the epoch before; without `rateBefore` it equals the rate now. */
const rateBefore = ({ streams }: PackDocument, { id, rate }: Stream): number => {
  const before = streams[id]!.rateBefore;
  return before === undefined ? rate : before / 1000;
};

/** Latencies for planning: with `pad-up` only the compiled batch sizes are planned. */
export function latencyOf(
  table: LatencyTable,
  { latencyMs, between, batchMax = Infinity }: LatencyEntry,
): BatchLatency {
  const isPadded = between === "pad-up" && latencyMs !== undefined && !Array.isArray(latencyMs);
  const batchSizes = isPadded
    ? Object.keys(latencyMs)
        .map(Number)
        .filter((size) => size <= batchMax)
    : Array.from({ length: table.batchSizeMax }, (_, i) => i + 1);
  return { batchSizes, latency: (b) => table.latency(b) / 1000 };
}
