/** The greatest elements of an output by index and label: Triton's classification extension. Pure. */
import { floatsOf, presentationOf } from "@tutti/onnx-tools";
import { type ModelSpec, type Tensor, TuttiError, bytesOf } from "@tutti/protocol";
import { jsonFromBytes } from "@tutti/wire";
import { hasRows } from "./batch-rows.ts";
import { type OutputTensor, packElements } from "./bytes-elements.ts";

/** Largest number of elements named per row: each becomes an object and a text. */
export const CLASSIFICATION_MAX = 4_096;

/**
 * Finds the greatest elements of each row, greatest first. Each is "value:index", or "value:index:label" where the
 * model's presentation has labels for this output. Of equal ones the lower index comes first; NaN is less than any
 * number.
 *
 * @param spec - undefined: a pipeline, whose output is one row
 * @param classes - number of elements; where a row has fewer, all of them
 * @returns BYTES[rows, classes], or BYTES[classes] where the model has no batch axis
 * @throws {TuttiError} INVALID_INPUT for more than CLASSIFICATION_MAX of a row
 */
export function classified(spec: ModelSpec | undefined, output: Tensor, classes: number): OutputTensor {
  const { name, dims } = output;
  const isBatch = spec !== undefined && hasRows(spec);
  const rows = isBatch ? (dims[0] ?? 1) : 1;
  const values = valuesOf(output);
  const length = rows === 0 ? 0 : values.length / rows;
  const count = Math.min(classes, length);
  if (count > CLASSIFICATION_MAX)
    throw invalid(
      `output "${name}": classification names at most ${CLASSIFICATION_MAX} elements of a row (CLASSIFICATION_MAX); take the output as it is and sort it`,
    );
  const labels = labelsOf(spec, name);
  const encoder = new TextEncoder();
  const elements: Uint8Array[] = [];
  for (let row = 0; row < rows; row++)
    for (const at of greatest(values, { from: row * length, length }, count)) {
      const index = at - row * length;
      const label = labels[index];
      const text = `${textAt(output, at)}:${index}${label === undefined ? "" : `:${label}`}`;
      elements.push(encoder.encode(text));
    }
  return { name, type: "BYTES", dims: isBatch ? [rows, count] : [count], data: packElements(elements) };
}

type Values = ArrayLike<number | bigint>;

/** Values for comparison: 64-bit integers beyond a double's precision stay exact. */
function valuesOf(output: Tensor): Values {
  const { type, data } = output;
  if (type === "FP32") return floatsOf(output);
  const isWhole = type === "INT64" || type === "UINT64";
  return jsonFromBytes(type, data).map((value) =>
    typeof value === "string" && isWhole ? BigInt(value) : Number(value),
  );
}

/** The shortest decimal that parses to this value; true is 1. */
function textAt({ type, data }: Tensor, index: number): string {
  const bytes = bytesOf(type);
  const [value] = jsonFromBytes(type, data.subarray(index * bytes, (index + 1) * bytes));
  return String(typeof value === "boolean" ? Number(value) : value);
}

function labelsOf(spec: ModelSpec | undefined, name: string): readonly string[] {
  const { output } = presentationOf(spec?.presentation);
  return output?.kind === "classes" && output.tensor === name && Array.isArray(output.labels) ? output.labels : [];
}

/**
 * Indices of the greatest elements of a row, greatest first. Candidates are sorted once there are twice as many as
 * wanted, so that a long row with few wanted costs one comparison per element.
 */
function greatest(values: Values, { from, length }: { readonly from: number; readonly length: number }, count: number) {
  const order = (a: number, b: number): number => compare(values, a, b);
  const kept: number[] = [];
  let isFull = false;
  for (let at = from; at < from + length && count > 0; at++) {
    if (isFull && order(at, kept[count - 1]!) > 0) continue;
    kept.push(at);
    if (kept.length < 2 * count) continue;
    kept.sort(order);
    kept.length = count;
    isFull = true;
  }
  return kept.sort(order).slice(0, count);
}

function compare(values: Values, a: number, b: number): number {
  const [x, y] = [values[a]!, values[b]!];
  if (x > y) return -1;
  if (x < y) return 1;
  const [isNoX, isNoY] = [Number.isNaN(x), Number.isNaN(y)];
  return isNoX === isNoY ? a - b : isNoX ? 1 : -1;
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
