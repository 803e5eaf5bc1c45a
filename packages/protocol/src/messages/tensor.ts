import { AXIS_SIZE_MAX, RANK_MAX } from "../limits.ts";
import { type Static, schema } from "../schema.ts";

/** Element types of the Open Inference Protocol that we serve; BYTES (strings) is refused by name. */
export const DATA_TYPES = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  FP32: 4,
  FP64: 8,
} as const;
export type DataType = keyof typeof DATA_TYPES;
export const isDataType = (text: string): text is DataType => Object.hasOwn(DATA_TYPES, text);
/** Bytes of one element. */
export const bytesOf = (type: DataType): number => DATA_TYPES[type];

/** Append only: these numbers are on the wire. */
const ORDER: readonly DataType[] = [
  "BOOL",
  "UINT8",
  "UINT16",
  "UINT32",
  "UINT64",
  "INT8",
  "INT16",
  "INT32",
  "INT64",
  "FP16",
  "FP32",
  "FP64",
];
export const dataTypeNumber = (type: DataType): number => ORDER.indexOf(type);
export const dataTypeOfNumber = (number: number): DataType | undefined => ORDER[number];

const FLOATS: Partial<Record<DataType, number>> = { FP16: 65_504, FP32: 3.4028234663852886e38, FP64: Number.MAX_VALUE };
/** True if an element of this type can have that value (floats round); no type holds non-finite values. */
export function canHold(type: DataType, value: number): boolean {
  const most = FLOATS[type];
  if (most !== undefined) return Math.abs(value) <= most;
  if (type === "BOOL") return value === 0 || value === 1;
  const bits = Math.min(53, 8 * bytesOf(type)); // beyond 2^53 a number is none any more
  const [low, high] = type.startsWith("U") ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
  return Number.isInteger(value) && value >= low && value <= high;
}

/** The symbolic name that marks the batch axis in `dims`. */
export const BATCH_AXIS = "batch";

const size = schema.whole(0, AXIS_SIZE_MAX);
const named = { name: schema.text(), type: schema.oneOf(Object.keys(DATA_TYPES) as DataType[]) };
export const tensorFields = {
  ...named,
  /** Numbers, the name of a variable axis (`W`), or `batch`. */
  dims: schema.list(schema.either(schema.text(), size), RANK_MAX + 1),
};
/** One input or output of a model. */
export const TensorSpec = schema.record(tensorFields);
export type TensorSpec = Static<typeof TensorSpec>;

/**
 * An input that is the same for every request (a sampling rate, a threshold). The executor feeds it; nobody sends it.
 */
export const ConstantSpec = schema.record({
  ...named,
  dims: schema.list(size, RANK_MAX),
  values: schema.list(schema.finite, AXIS_SIZE_MAX),
});
export type ConstantSpec = Static<typeof ConstantSpec>;

/** A named tensor: raw little-endian bytes in row-major order. `data.byteLength` = product of dims × bytesOf(type). */
export interface Tensor {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly data: Uint8Array;
}

export const elementCount = (dims: readonly number[]): number => dims.reduce((product, dim) => product * dim, 1);
export const alignTo8 = (bytes: number): number => (bytes + 7) & ~7;
