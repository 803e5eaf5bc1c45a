/** Converts tensors between JavaScript values and the raw little-endian bytes that travel. */
import { type DataType, type Tensor, TuttiError, bytesOf, elementCount, isDataType } from "@tutti/protocol";

/** FP16 values are their bits in a Uint16Array; BOOL is one byte each in a Uint8Array. */
export type TensorData =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

/** One tensor without its name: `data.length` = product of `dims`, row-major. */
export interface TensorValue {
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly data: TensorData;
}

export type Scalar = number | bigint | boolean;
export type NestedArray = readonly (Scalar | NestedArray)[];
/** Input of `infer`: a tensor, a flat typed array (one axis), or nested arrays (their nesting is the shape). */
export type TensorInput = TensorValue | TensorData | NestedArray;

/**
 * Makes a tensor from numbers.
 *
 * @param values - a typed array (borrowed, not copied) or (nested) arrays of numbers, bigints or booleans
 * @param dims - the shape; by default the nesting of `values`
 * @param type - by default that of the typed array; for arrays FP32, INT64 for bigints, BOOL for booleans
 * @throws {TuttiError} INVALID_INPUT when the shape doesn't hold the values, or they don't fit the type
 */
export function tensor(values: TensorData | NestedArray, dims?: readonly number[], type?: DataType): TensorValue {
  if (type !== undefined && !isDataType(type)) throw invalid(`"${String(type)}" is no type of a tensor`);
  const shape = dims ?? (isTypedArray(values) ? [values.length] : shapeOf(values));
  const data = isTypedArray(values) ? retyped(values, type) : filled(values, type);
  const count = elementCount(shape);
  if (count !== data.data.length) {
    throw invalid(`shape [${shape.join(", ")}] holds ${count} values, but there are ${data.data.length}`);
  }
  return { type: data.type, dims: shape, data: data.data };
}

/** The inputs of a call as they travel. @throws {TuttiError} INVALID_INPUT naming the input */
export function inputsToWire(inputs: Readonly<Record<string, TensorInput>>): Tensor[] {
  const given: unknown = inputs;
  if (typeof given !== "object" || given === null || Array.isArray(given) || ArrayBuffer.isView(given))
    throw invalid("inputs: give them by name, such as { x: new Float32Array(256) }");
  return Object.entries(inputs).map(([name, input]) => toWire(name, input));
}

/** The tensor as it travels: `data` is a view of the caller's memory. */
export function toWire(name: string, input: TensorInput): Tensor {
  if (!isTypedArray(input) && !Array.isArray(input) && !hasParts(input))
    throw invalid(`input "${name}" is no tensor: give a typed array, nested arrays or tensor(values, dims)`);
  const { type, dims, data } = isTensorValue(input) ? checked(name, input) : tensor(input);
  return { name, type, dims, data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

/** The tensor as programs read it: a view of `wire.data` where that is aligned, else a copy. */
export function tensorValue(wire: Tensor): TensorValue {
  const { type, dims, data } = wire;
  const size = bytesOf(type);
  const aligned = data.byteOffset % size === 0 ? data : new Uint8Array(data);
  const array = new ARRAYS[type](aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / size);
  return { type, dims, data: array };
}

type TypedArrayConstructor = {
  new (length: number): TensorData;
  new (buffer: ArrayBuffer, offset: number, length: number): TensorData;
};

const ARRAYS: Readonly<Record<DataType, TypedArrayConstructor>> = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
};

const NATURAL: readonly (readonly [TypedArrayConstructor, DataType])[] = [
  [Float32Array, "FP32"],
  [Float64Array, "FP64"],
  [Int8Array, "INT8"],
  [Int16Array, "INT16"],
  [Int32Array, "INT32"],
  [BigInt64Array, "INT64"],
  [Uint8Array, "UINT8"],
  [Uint16Array, "UINT16"],
  [Uint32Array, "UINT32"],
  [BigUint64Array, "UINT64"],
];

interface Typed {
  readonly type: DataType;
  readonly data: TensorData;
}

function retyped(data: TensorData, type: DataType | undefined): Typed {
  const natural = NATURAL.find(([array]) => data instanceof array)?.[1];
  if (natural === undefined)
    throw invalid(`${data.constructor.name} holds no tensor type; take one of ${arrayNames()}`);
  if (type === undefined || type === natural) return { type: natural, data };
  // The same bits read as another type of the same width are meant (FP16, BOOL); anything else would be a silent
  // conversion.
  if (data instanceof ARRAYS[type]) return { type, data };
  throw invalid(
    `a ${data.constructor.name} can't hold ${type}: take a ${ARRAYS[type].name}, or a plain array to convert`,
  );
}

function filled(values: NestedArray, wanted: DataType | undefined): Typed {
  const flat: Scalar[] = [];
  flatten(values, flat);
  const first = flat[0];
  const type = wanted ?? (typeof first === "bigint" ? "INT64" : typeof first === "boolean" ? "BOOL" : "FP32");
  if (type === "FP16") throw invalid("FP16 travels as bits: give a Uint16Array of them");
  const data = new ARRAYS[type](flat.length);
  const big = data instanceof BigInt64Array || data instanceof BigUint64Array;
  for (const [index, value] of flat.entries()) {
    if (big) (data as BigInt64Array)[index] = toBigInt(value);
    else (data as Float64Array)[index] = Number(value);
    const kept = Number(data[index]);
    const whole = type !== "FP32" && type !== "FP64";
    if (whole && kept !== Number(value)) throw invalid(`value ${index} is ${value}, which ${type} can't hold`);
  }
  return { type, data };
}

function toBigInt(value: Scalar): bigint {
  if (typeof value === "number" && !Number.isInteger(value)) throw invalid(`${value} is no whole number`);
  return BigInt(value);
}

function flatten(values: NestedArray, into: Scalar[]): void {
  for (const value of values) {
    if (Array.isArray(value)) flatten(value as NestedArray, into);
    else into.push(value as Scalar);
  }
}

function shapeOf(values: NestedArray): number[] {
  const first = values[0];
  if (!Array.isArray(first)) {
    if (values.some(Array.isArray)) throw invalid("ragged nesting: every row must have the same length");
    return [values.length];
  }
  const inner = shapeOf(first as NestedArray);
  const same = (row: unknown): boolean => Array.isArray(row) && shapeOf(row as NestedArray).join() === inner.join();
  if (!values.every(same)) throw invalid("ragged nesting: every row must have the same length");
  return [values.length, ...inner];
}

function checked(name: string, value: TensorValue): TensorValue {
  const count = elementCount(value.dims);
  if (count === value.data.length && value.data instanceof ARRAYS[value.type]) return value;
  const got = `${value.data.length} values in a ${value.data.constructor.name}`;
  throw invalid(`input "${name}" says ${value.type} [${value.dims.join(", ")}], but has ${got}`);
}

const isTypedArray = (value: unknown): value is TensorData => ArrayBuffer.isView(value) && !(value instanceof DataView);
function hasParts(value: unknown): boolean {
  const { type, dims, data } = (value ?? {}) as Partial<Record<keyof TensorValue, unknown>>;
  return typeof type === "string" && isDataType(type) && Array.isArray(dims) && isTypedArray(data);
}
const isTensorValue = (input: TensorInput): input is TensorValue => !isTypedArray(input) && !Array.isArray(input);
const arrayNames = (): string => NATURAL.map(([array]) => array.name).join(", ");
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
