/** A tensor's values as one run of bytes, wherever its file keeps them. */
import type { TensorProto } from "onnx-buf";
import { TensorProto_DataLocation as Location, TensorProto_DataType as Type } from "onnx-buf";

/** Little endian, row-major, as `raw_data` has them; undefined for what lies in another file, and for text. */
export function tensorBytes(tensor: TensorProto): Uint8Array | undefined {
  if (tensor.dataLocation === Location.EXTERNAL || tensor.dataType === Type.STRING) return undefined;
  if (tensor.rawData.byteLength > 0) return tensor.rawData;
  switch (tensor.dataType as Type) {
    case Type.FLOAT:
    case Type.COMPLEX64:
      return over(Float32Array.from(tensor.floatData));
    case Type.DOUBLE:
    case Type.COMPLEX128:
      return over(Float64Array.from(tensor.doubleData));
    case Type.INT64:
      return over(BigInt64Array.from(tensor.int64Data));
    case Type.UINT64:
      return over(BigUint64Array.from(tensor.uint64Data));
    case Type.UINT32:
      return over(Uint32Array.from(tensor.uint64Data, Number));
    case Type.INT32:
      return over(Int32Array.from(tensor.int32Data));
    case Type.INT16:
    case Type.UINT16:
    case Type.FLOAT16:
    case Type.BFLOAT16:
      return over(Uint16Array.from(tensor.int32Data));
    case Type.INT8:
    case Type.UINT8:
    case Type.BOOL:
      return over(Uint8Array.from(tensor.int32Data));
    default:
      return undefined; // packed below a byte, or newer than we are
  }
}

const over = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
