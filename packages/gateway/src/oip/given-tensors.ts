/** Inputs as clients send them, before it is known what the model takes. */
import { type DataType, type Tensor, TuttiError, bytesOf, elementCount, isDataType } from "@tutti/protocol";

/** BYTES and BF16 exist in the protocol only: nothing behind the gateway knows them. */
export type GivenType = DataType | "BF16" | "BYTES";
export interface GivenTensor {
  readonly name: string;
  readonly type: GivenType;
  readonly dims: readonly number[];
  /** Row-major and little-endian; the elements of BYTES are packed. */
  readonly data: Uint8Array;
}

export const isNumeric = (tensor: GivenTensor): tensor is Tensor => isDataType(tensor.type);
export const isBytes = ({ type }: GivenTensor): boolean => type === "BYTES";

/** Bytes that a tensor of this shape has; undefined: BYTES, of which nobody knows. */
export function sizeOf(type: GivenType, dims: readonly number[]): number | undefined {
  if (type === "BYTES") return undefined;
  return elementCount(dims) * (type === "BF16" ? 2 : bytesOf(type));
}

export const noStrings = (name: string, why: string): TuttiError =>
  new TuttiError("TUTTI_INVALID_INPUT", `tensor "${name}": BYTES (strings) is not served; send numbers. ${why}`);
