import { type DataType, type Tensor, TuttiError, bytesOf, elementCount, isDataType } from "@tutti/protocol";
import { decodeTensors, encodeTensors } from "@tutti/wire";

/** Array types in which functions see elements: FP16 as its raw bits (Uint16Array), BOOL as 0 and 1. */
const ARRAYS = {
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
} as const satisfies Record<DataType, unknown>;
export type StepData =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/**
 * A tensor for functions: `data.length` = product of `dims`, row-major. It has the batch axis, with size 1, as any
 * request.
 */
export interface StepTensor {
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly data: StepData;
}
/** Tensors by name: one request's inputs, one answer's outputs. */
export type Tensors = Readonly<Record<string, StepTensor>>;

/** Encodes text as UINT8[bytes], in UTF-8: there is no tensor of strings. */
export const textTensor = (text: string): StepTensor => {
  const data = new TextEncoder().encode(text);
  return { type: "UINT8", dims: [data.byteLength], data };
};
export const textOf = (tensor: StepTensor): string =>
  new TextDecoder().decode(new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength));

/** @throws {TuttiError} INVALID_INPUT if the message is no tensor message */
export const tensorsOf = (message: Uint8Array): Tensors => fromTensors(decodeTensors(message));

export function fromTensors(tensors: readonly Tensor[]): Tensors {
  return Object.fromEntries(
    tensors.map(({ name, type, dims, data }) => [name, { type, dims, data: viewOf(type, data) }]),
  );
}

function viewOf(type: DataType, bytes: Uint8Array): StepData {
  const size = bytesOf(type);
  const { buffer, byteOffset } = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  return new ARRAYS[type](buffer as ArrayBuffer, byteOffset, bytes.byteLength / size);
}

/**
 * Encodes a function's result as a tensor message. Every part of the result is checked.
 *
 * @throws {TuttiError} INTERNAL naming `where` and what is wrong
 */
export function messageOf(value: unknown, where: string): Uint8Array {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw wrong(where, `returned ${kindOf(value)} where tensors by name are due`);
  const tensors = Object.entries(value).map(([name, tensor]) => readTensor(name, tensor, where));
  if (tensors.length === 0) throw wrong(where, "returned no tensor");
  try {
    return encodeTensors(tensors);
  } catch (error) {
    throw wrong(where, error instanceof Error ? error.message : String(error));
  }
}

function readTensor(name: string, value: unknown, where: string): Tensor {
  const { type, dims, data } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (typeof type !== "string" || !isDataType(type)) throw wrong(where, `"${name}" has no element type that is served`);
  if (!Array.isArray(dims) || !dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0))
    throw wrong(where, `the dims of "${name}" are no list of sizes`);
  // Raw little-endian bytes are accepted too. Any other array class is a mistake, and would be read as noise.
  if (!(data instanceof ARRAYS[type] || data instanceof Uint8Array))
    throw wrong(where, `"${name}" is ${type}, so its data is a ${ARRAYS[type].name}`);
  const count = elementCount(dims as number[]);
  if (data.byteLength !== count * bytesOf(type))
    throw wrong(
      where,
      `"${name}" has ${data.byteLength} bytes of data, and ${type}[${dims.join(", ")}] takes ${count * bytesOf(type)}`,
    );
  return { name, type, dims: dims as number[], data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

const kindOf = (value: unknown): string => (Array.isArray(value) ? "a list" : value === null ? "null" : typeof value);
const wrong = (where: string, text: string): TuttiError => new TuttiError("TUTTI_INTERNAL", `${where} ${text}`);
