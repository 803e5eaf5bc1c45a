import { type DataType, type Tensor, bytesOf } from "@tutti/protocol";
import ort from "./onnxruntime.ts";

type TypedArray = ort.TypedTensor<"float32">["data"] | { readonly buffer: ArrayBufferLike };
type ArrayOver = new (buffer: ArrayBufferLike, byteOffset: number, length: number) => TypedArray;

hideHalfArrays();

/**
 * Hides Float16Array while onnxruntime looks for it. Where the runtime has it (Node 24), onnxruntime's JavaScript part
 * uses it for half floats, and its native part, which can't read one, then finds no bytes. It looks once, at the first
 * tensor, so that tensor is made here: half floats then travel as 16-bit integers, as on older Node.
 */
function hideHalfArrays(): void {
  const found = Object.getOwnPropertyDescriptor(globalThis, "Float16Array");
  if (found === undefined) return;
  Reflect.deleteProperty(globalThis, "Float16Array");
  new ort.Tensor("uint8", new Uint8Array(0), [0]);
  Object.defineProperty(globalThis, "Float16Array", found);
}

const KINDS: Readonly<Record<DataType, { readonly name: ort.Tensor.Type; readonly array: ArrayOver }>> = {
  BOOL: { name: "bool", array: Uint8Array },
  UINT8: { name: "uint8", array: Uint8Array },
  UINT16: { name: "uint16", array: Uint16Array },
  UINT32: { name: "uint32", array: Uint32Array },
  UINT64: { name: "uint64", array: BigUint64Array },
  INT8: { name: "int8", array: Int8Array },
  INT16: { name: "int16", array: Int16Array },
  INT32: { name: "int32", array: Int32Array },
  INT64: { name: "int64", array: BigInt64Array },
  FP16: { name: "float16", array: Uint16Array },
  FP32: { name: "float32", array: Float32Array },
  FP64: { name: "float64", array: Float64Array },
};

const BY_NAME = new Map(Object.entries(KINDS).map(([type, { name }]) => [name, type as DataType]));

/** onnxruntime's name for a type. */
export const ortTypeOf = (type: DataType): ort.Tensor.Type => KINDS[type].name;
export const dataTypeOf = (name: string): DataType | undefined => BY_NAME.get(name as ort.Tensor.Type);

/** An onnxruntime tensor over the same bytes: nothing is copied, and the run reads them when it executes. */
export function toOrt({ type, dims, data }: Tensor): ort.Tensor {
  const { name, array } = KINDS[type];
  const values = new array(data.buffer, data.byteOffset, data.byteLength / bytesOf(type));
  return new ort.Tensor(name, values as never, dims);
}

/** A tensor over the bytes of a run's output, which owns its buffer. */
export function fromOrt(name: string, tensor: ort.Tensor): Tensor {
  const type = dataTypeOf(tensor.type);
  if (type === undefined)
    throw new Error(`output '${name}' has elements of type ${tensor.type}, which can't be served`);
  const { buffer, byteOffset, byteLength } = tensor.data as unknown as ArrayBufferView;
  const data = new Uint8Array(buffer, byteOffset, byteLength);
  // Outputs have buffers of their own; a view of a shared buffer is copied, since a transfer would take its neighbours
  // along.
  return { name, type, dims: tensor.dims, data: byteLength === buffer.byteLength ? data : new Uint8Array(data) };
}

const OVER: Readonly<Record<DataType, (data: Uint8Array) => ArrayLike<number | bigint>>> = {
  BOOL: (data) => data,
  UINT8: (data) => data,
  UINT16: (data) => new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2),
  UINT32: (data) => new Uint32Array(data.buffer, data.byteOffset, data.byteLength / 4),
  UINT64: (data) => new BigUint64Array(data.buffer, data.byteOffset, data.byteLength / 8),
  INT8: (data) => new Int8Array(data.buffer, data.byteOffset, data.byteLength),
  INT16: (data) => new Int16Array(data.buffer, data.byteOffset, data.byteLength / 2),
  INT32: (data) => new Int32Array(data.buffer, data.byteOffset, data.byteLength / 4),
  INT64: (data) => new BigInt64Array(data.buffer, data.byteOffset, data.byteLength / 8),
  FP16: (data) => Float32Array.from({ length: data.byteLength / 2 }, (_, i) => halfAt(data, i)),
  FP32: (data) => new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4),
  FP64: (data) => new Float64Array(data.buffer, data.byteOffset, data.byteLength / 8),
};

/** The elements as numbers, for comparing outputs. */
export const valuesOf = ({ type, data }: Tensor): ArrayLike<number | bigint> => OVER[type](data);

function halfAt(data: Uint8Array, index: number): number {
  const bits = (data[2 * index] as number) | ((data[2 * index + 1] as number) << 8);
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** A tensor's bytes from numbers: constants of a spec, and inputs made up for a comparison. */
export function bytesFrom(type: DataType, values: readonly number[]): Uint8Array {
  const data = new Uint8Array(values.length * bytesOf(type));
  const view = new DataView(data.buffer);
  for (const [i, value] of values.entries()) WRITERS[type](view, i, value);
  return data;
}

const WRITERS: Readonly<Record<DataType, (view: DataView, index: number, value: number) => void>> = {
  BOOL: (view, i, value) => view.setUint8(i, value === 0 ? 0 : 1),
  UINT8: (view, i, value) => view.setUint8(i, value),
  UINT16: (view, i, value) => view.setUint16(2 * i, value, true),
  UINT32: (view, i, value) => view.setUint32(4 * i, value, true),
  UINT64: (view, i, value) => view.setBigUint64(8 * i, BigInt(value), true),
  INT8: (view, i, value) => view.setInt8(i, value),
  INT16: (view, i, value) => view.setInt16(2 * i, value, true),
  INT32: (view, i, value) => view.setInt32(4 * i, value, true),
  INT64: (view, i, value) => view.setBigInt64(8 * i, BigInt(value), true),
  FP16: (view, i, value) => view.setUint16(2 * i, toHalf(value), true),
  FP32: (view, i, value) => view.setFloat32(4 * i, value, true),
  FP64: (view, i, value) => view.setFloat64(8 * i, value, true),
};

/** Converts a number to a half float, rounding towards zero; precise enough for made-up inputs and round constants. */
function toHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size > 65_504) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | Math.floor(size * 2 ** 24);
  const exponent = Math.floor(Math.log2(size));
  return sign | ((exponent + 15) << 10) | Math.floor((size / 2 ** exponent - 1) * 1024);
}
