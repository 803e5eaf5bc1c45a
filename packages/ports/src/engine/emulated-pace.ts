/** Latency of an emulated model whose run time depends on its inputs (PaceSpec). */
import {
  BATCH_AXIS,
  type FamilySpec,
  type LinePace,
  type PaceSpec,
  REQUEST_BYTES_MAX,
  SLO_US_MAX,
} from "@tutti/protocol";
import { type Micros, millis } from "@tutti/units";
import type { Section } from "./document-section.ts";
import type { EngineBatch } from "./engine.ts";

/** Parses the document's `dynamic` section; the README has its schema. */
export function parsePace(section: Section): PaceSpec {
  section.only(["fixedMs", "unitMs", "rowUnitMs", "axis", "max", "typical"]);
  const time = { least: 0, most: SLO_US_MAX / 1000, otherwise: 0 };
  const [fixedMs, unitMs, rowUnitMs] = ["fixedMs", "unitMs", "rowUnitMs"].map((field) => section.number(field, time));
  if (fixedMs! + unitMs! + rowUnitMs! <= 0) section.problem("unitMs", "a batch takes some time");
  const axis = section.value("axis") === undefined ? undefined : section.text("axis");
  if (axis === BATCH_AXIS) section.problem("axis", `${BATCH_AXIS} is the axis of the rows`);
  const max = section.number("max", { least: 1, most: REQUEST_BYTES_MAX, whole: axis !== undefined });
  const typical = section.number("typical", { above: 0, most: max, otherwise: max, whole: axis !== undefined });
  return {
    fixedMs: fixedMs!,
    unitMs: unitMs!,
    rowUnitMs: rowUnitMs!,
    ...(axis !== undefined && { axis }),
    max,
    typical,
  };
}

/** l(k) when the longest row is `longest` units long. */
export const latencyAt = ({ fixedMs, unitMs, rowUnitMs }: PaceSpec, rows: number, longest: number): Micros =>
  millis(Math.max(0.001, fixedMs + (unitMs + rowUnitMs * rows) * longest));

/** Latency of one batch. The lengths of its rows are its `units`, or their first numbers if the pace has no axis. */
export function latencyOfPace(pace: PaceSpec, batch: EngineBatch): Micros {
  const lengths = pace.axis === undefined ? firstNumbers(batch) : (batch.units ?? []);
  const longest = lengths.reduce((most, length) => (length > most ? length : most), 0);
  return latencyAt(pace, batch.batchSize, Math.min(pace.max, longest));
}

/** First number of each row of input 0, which is f32 with the batch axis first. */
function firstNumbers({ inputs, batchSize }: EngineBatch): number[] {
  const { type, data } = inputs[0] ?? {};
  if (type !== "FP32" || data === undefined || data.byteLength === 0) return [];
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const stride = data.byteLength / batchSize;
  return Array.from({ length: batchSize }, (_, row) => view.getFloat32(row * stride, true));
}

const lineAt = ({ alphaMs, betaMs }: LinePace, rows: number): number => alphaMs * rows + betaMs;

/**
 * Latency of one batch of a family (docs/algorithms.md, C7). The prefix runs over all rows, then each variant's suffix
 * over its own rows.
 */
export function latencyOfFamily(
  { prefix, suffix }: NonNullable<FamilySpec["pace"]>,
  batchSize: number,
  groups: readonly { readonly rows: readonly number[] }[],
): Micros {
  const suffixes = groups.reduce((sum, { rows }) => sum + lineAt(suffix, rows.length), 0);
  return millis(Math.max(0.001, lineAt(prefix, batchSize) + suffixes));
}
