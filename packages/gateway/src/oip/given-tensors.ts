/** Inputs as clients send them, before it is known what the model takes. */
import { type DataType, type Tensor, TuttiError, bytesOf, elementCount, isDataType } from "@tutti/protocol";

/** BYTES and BF16 exist in the protocol only: nothing behind the gateway knows them. */
export type GivenType = DataType | "BF16" | "BYTES";
/** Where in shared memory a tensor lies. */
export interface RegionSlice {
  readonly region: string;
  readonly offset: number;
  readonly bytes: number;
}
export interface GivenTensor {
  readonly name: string;
  readonly type: GivenType;
  readonly dims: readonly number[];
  /** Row-major and little-endian; the elements of BYTES are packed. Empty where it lies in shared memory. */
  readonly data: Uint8Array;
  readonly slice?: RegionSlice | undefined;
}

export const isNumeric = (tensor: GivenTensor): tensor is Tensor =>
  isDataType(tensor.type) && tensor.slice === undefined;
export const isBytes = ({ type }: GivenTensor): boolean => type === "BYTES";

/** Bytes that a tensor of this shape has; undefined: BYTES, of which nobody knows. */
export function sizeOf(type: GivenType, dims: readonly number[]): number | undefined {
  if (type === "BYTES") return undefined;
  return elementCount(dims) * (type === "BF16" ? 2 : bytesOf(type));
}

/** A count that is exact. */
export const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

export const noStrings = (name: string, why: string): TuttiError =>
  new TuttiError("TUTTI_INVALID_INPUT", `tensor "${name}": BYTES (strings) is not served; send numbers. ${why}`);
