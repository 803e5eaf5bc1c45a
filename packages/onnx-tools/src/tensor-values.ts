import type { DataType, Tensor } from "@tutti/protocol";
import { assert } from "@tutti/units";

/** The elements of an FP32 tensor; copied only where its bytes are not aligned. */
export function floatsOf(tensor: Tensor): Float32Array {
  assert(tensor.type === "FP32", `${tensor.name} is ${tensor.type}, not FP32`);
  const { data } = tensor;
  const aligned = data.byteOffset % 4 === 0 ? data : new Uint8Array(data);
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
}

/** A tensor over the very bytes of `values`. */
export function tensorOf(
  name: string,
  type: DataType,
  dims: readonly number[],
  values: Float32Array | Float64Array | BigInt64Array | Int32Array | Uint8Array,
): Tensor {
  return { name, type, dims, data: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}
