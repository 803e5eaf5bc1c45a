/** Converts JSON values to a tensor's bytes, one type at a time; json-elements.ts is the way back. */
import { type DataType, RANK_MAX, TuttiError, bytesOf, elementCount } from "@tutti/protocol";
import { HALF_OVERFLOW, toHalf } from "./half.ts";

interface Range {
  readonly min: number;
  readonly max: number;
}
const INTEGERS: Partial<Record<DataType, Range>> = {
  UINT8: { min: 0, max: 255 },
  UINT16: { min: 0, max: 65_535 },
  UINT32: { min: 0, max: 4_294_967_295 },
  INT8: { min: -128, max: 127 },
  INT16: { min: -32_768, max: 32_767 },
  INT32: { min: -2_147_483_648, max: 2_147_483_647 },
};
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const UINT64_MAX = 2n ** 64n - 1n;
const INTEGER_TEXT = /^-?\d{1,20}$/;
/** Spelling of non-finite numbers, for which JSON has no literals. */
const NON_FINITE: ReadonlyMap<string, number> = new Map([
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
]);

/**
 * The raw little-endian bytes of `dims` elements. `data` is row-major, and flat or nested as `dims` say. Integers of 64
 * bits may be strings; floats may be "NaN", "Infinity" or "-Infinity". A number that is infinite was too large for a
 * double, such as 1e400, and is refused.
 * @throws {TuttiError} INVALID_INPUT naming the tensor and the first element that doesn't fit
 */
export function bytesFromJson(
  name: string,
  type: DataType,
  dims: readonly number[],
  data: readonly unknown[],
): Uint8Array {
  return bytesOfElements({ name, type, infinite: "refused" }, dims, data);
}

/** As `bytesFromJson`, but for values whose encoding has infinite numbers: msgpack and protobuf. */
export function bytesFromValues(
  name: string,
  type: DataType,
  dims: readonly number[],
  data: readonly unknown[],
): Uint8Array {
  return bytesOfElements({ name, type, infinite: "taken" }, dims, data);
}

function bytesOfElements(
  wanted: Pick<Sink, "name" | "type" | "infinite">,
  dims: readonly number[],
  data: readonly unknown[],
): Uint8Array {
  const { name, type } = wanted;
  const count = elementCount(dims);
  // Count before the allocation: otherwise a shape of a few bytes could make it as large as it likes.
  const sizes = nestedSizes(name, data);
  const given = elementCount(sizes);
  if (given !== count)
    throw invalid(`tensor "${name}": shape [${dims.join(", ")}] has ${count} elements, data has ${given}`);
  if (!isNestedAs(dims, sizes))
    throw invalid(
      `tensor "${name}": its shape is [${dims.join(", ")}], and data is nested as [${sizes.join(", ")}]: nest it as the shape says, or write one flat list`,
    );
  const bytes = new Uint8Array(count * bytesOf(type));
  if (type === "FP32" && IS_LITTLE_ENDIAN && putPlainFloats(new Float32Array(bytes.buffer), data)) return bytes;
  putAll({ ...wanted, view: new DataView(bytes.buffer), at: 0 }, data, sizes.length);
  return bytes;
}

/**
 * Lengths of the lists by depth. Ragged lists are refused: elements that one row lacks would be taken from the next.
 * Lists among the innermost elements are left for `put` to refuse.
 */
function nestedSizes(name: string, data: readonly unknown[]): readonly number[] {
  const sizes: number[] = [];
  for (let first: unknown = data; Array.isArray(first); first = first[0]) {
    if (sizes.length > RANK_MAX) throw invalid(`data is nested more than ${RANK_MAX} deep`);
    sizes.push(first.length);
  }
  checkNesting({ name, sizes, at: [] }, data, 0);
  return sizes;
}

/** Whether data is flat or nested as the shape says. Lists within an axis of no elements can't be written. */
const isNestedAs = (dims: readonly number[], sizes: readonly number[]): boolean =>
  sizes.length === 1 ||
  (sizes.every((size, axis) => size === dims[axis]) && (sizes.length === dims.length || sizes.at(-1) === 0));

interface Nesting {
  readonly name: string;
  /** Lengths of the lists by depth, as the first of each depth has them. */
  readonly sizes: readonly number[];
  /** Place of the list that is checked. */
  readonly at: number[];
}

function checkNesting(nesting: Nesting, data: readonly unknown[], depth: number): void {
  const length = nesting.sizes[depth + 1];
  if (length === undefined) return;
  for (let i = 0; i < data.length; i++) {
    const list = data[i];
    nesting.at[depth] = i;
    if (!Array.isArray(list) || list.length !== length) throw ragged(nesting, list, depth);
    checkNesting(nesting, list, depth + 1);
  }
}

function ragged({ name, sizes, at }: Nesting, found: unknown, depth: number): TuttiError {
  const placeOf = (indices: readonly number[]): string => `data${indices.map((i) => `[${i}]`).join("")}`;
  const place = placeOf(at.slice(0, depth + 1));
  const has = Array.isArray(found) ? `has ${found.length}` : "is no list";
  const first = `${placeOf(Array<number>(depth + 1).fill(0))} has ${sizes[depth + 1]!}`;
  return invalid(`tensor "${name}": the lists in data are ragged: ${place} ${has}, ${first}`);
}

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/**
 * Writes the usual case: a flat list of numbers. @returns false if anything else is among them, for `putAll` to check
 */
function putPlainFloats(target: Float32Array, data: readonly unknown[]): boolean {
  if (data.length !== target.length) return false;
  for (let i = 0; i < target.length; i++) {
    const value = data[i];
    if (typeof value !== "number") return false;
    target[i] = value;
    // Overflow: a finite number that would become infinite is refused by name.
    if (target[i] === Infinity || target[i] === -Infinity) return false;
  }
  return true;
}

interface Sink {
  readonly name: string;
  readonly type: DataType;
  /** Treatment of numbers that are infinite before they are rounded. */
  readonly infinite: "taken" | "refused";
  readonly view: DataView;
  at: number;
}

function putAll(sink: Sink, data: readonly unknown[], depth: number): void {
  if (depth > 1) for (const list of data as readonly (readonly unknown[])[]) putAll(sink, list, depth - 1);
  else for (const element of data) put(sink, element);
}

function put(sink: Sink, element: unknown): void {
  const { view, type } = sink;
  const i = sink.at++;
  switch (type) {
    case "FP32":
      return view.setFloat32(4 * i, float(sink, element), true);
    case "FP64":
      return view.setFloat64(8 * i, float(sink, element), true);
    case "FP16":
      return view.setUint16(2 * i, toHalf(float(sink, element)), true);
    case "BOOL":
      if (element !== true && element !== false && element !== 0 && element !== 1) throw refusal(sink, element);
      return view.setUint8(i, element ? 1 : 0);
    case "UINT8":
      return view.setUint8(i, integer(sink, element));
    case "INT8":
      return view.setInt8(i, integer(sink, element));
    case "UINT16":
      return view.setUint16(2 * i, integer(sink, element), true);
    case "INT16":
      return view.setInt16(2 * i, integer(sink, element), true);
    case "UINT32":
      return view.setUint32(4 * i, integer(sink, element), true);
    case "INT32":
      return view.setInt32(4 * i, integer(sink, element), true);
    case "INT64":
      return view.setBigInt64(8 * i, wide(sink, element, INT64_MIN, INT64_MAX), true);
    case "UINT64":
      return view.setBigUint64(8 * i, wide(sink, element, 0n, UINT64_MAX), true);
  }
}

function float(sink: Sink, element: unknown): number {
  const value = typeof element === "string" ? NON_FINITE.get(element) : element;
  if (typeof value !== "number") throw refusal(sink, element);
  if (value === element && sink.infinite === "refused" && Math.abs(value) === Infinity) throw refusal(sink, element);
  // Refuse a finite number that would become infinite: 1e39 is no FP32. But 3.4028235e38, as many print the greatest
  // one, is accepted.
  const becomes =
    sink.type === "FP32"
      ? Math.fround(value)
      : sink.type === "FP16" && Math.abs(value) >= HALF_OVERFLOW
        ? Infinity
        : value;
  if (Math.abs(becomes) === Infinity && Math.abs(value) !== Infinity) throw refusal(sink, element);
  return value;
}

function integer(sink: Sink, element: unknown): number {
  const { min, max } = INTEGERS[sink.type]!;
  if (typeof element !== "number" || !Number.isInteger(element) || element < min || element > max)
    throw refusal(sink, element);
  return element;
}

function wide(sink: Sink, element: unknown, min: bigint, max: bigint): bigint {
  let value: bigint;
  if (typeof element === "bigint") value = element;
  else if (typeof element === "number" && Number.isSafeInteger(element)) value = BigInt(element);
  else if (typeof element === "string" && INTEGER_TEXT.test(element)) value = BigInt(element);
  else throw refusal(sink, element);
  if (value < min || value > max) throw refusal(sink, element);
  return value;
}

/** An object of msgpack may hold what JSON has no text for. */
function shownOf(element: unknown): string {
  if (Array.isArray(element)) return `a list of ${element.length}`;
  return typeof element === "object" && element !== null ? "an object" : (JSON.stringify(element) ?? "undefined");
}

function refusal(sink: Sink, element: unknown): TuttiError {
  const isNumber = typeof element === "bigint" || typeof element === "number"; // JSON can't write an infinite one
  const shown = isNumber ? String(element) : shownOf(element);
  const hint =
    (sink.type === "INT64" || sink.type === "UINT64") && typeof element === "number" && Number.isInteger(element)
      ? " (write integers beyond 2^53 as strings)"
      : "";
  return invalid(
    `tensor "${sink.name}": element ${sink.at - 1} is ${shown.slice(0, 40)}, which is no ${sink.type}${hint}`,
  );
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
