/** Inputs as clients send them, before they are checked against the model. */
import { type DataType, type Tensor, TuttiError, bytesOf, elementCount, isDataType } from "@tutti/protocol";

/** BYTES and BF16 exist in the protocol only: the cluster has no such types. */
export type GivenType = DataType | "BF16" | "BYTES";
/** Place of a tensor in shared memory. */
export interface RegionSlice {
  readonly region: string;
  readonly offset: number;
  readonly bytes: number;
}
export interface GivenTensor {
  readonly name: string;
  readonly type: GivenType;
  readonly dims: readonly number[];
  /** Row-major and little-endian; the elements of BYTES are packed. Empty for a tensor in shared memory. */
  readonly data: Uint8Array;
  readonly slice?: RegionSlice | undefined;
  /** Its BYTES were texts in JSON, where files have no form. */
  readonly isText?: boolean | undefined;
}

export const isNumeric = (tensor: GivenTensor): tensor is Tensor =>
  isDataType(tensor.type) && tensor.slice === undefined;
export const isBytes = ({ type }: GivenTensor): boolean => type === "BYTES";

/** Bytes of a tensor of this shape; undefined for BYTES, whose elements vary in size. */
export function sizeOf(type: GivenType, dims: readonly number[]): number | undefined {
  if (type === "BYTES") return undefined;
  return elementCount(dims) * (type === "BF16" ? 2 : bytesOf(type));
}

/** Whether the value is an exact count. */
export const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

export const noStrings = (name: string, why: string): TuttiError =>
  new TuttiError("TUTTI_INVALID_INPUT", `tensor "${name}": BYTES (strings) is not served; send numbers. ${why}`);
