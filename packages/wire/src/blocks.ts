/**
 * Copies blocks of tensors: a part of one tensor's axes into a part of another's. It copies the longest runs that are
 * contiguous in both.
 */
import { type DataType, bytesOf } from "@tutti/protocol";
import { bytesFromValues } from "./elements.ts";

/** A tensor that a block is read from or written to. */
export interface BlockOwner {
  readonly bytes: Uint8Array;
  readonly dims: readonly number[];
  /** Offset of the block's first element in `bytes`. */
  readonly byteOffset: number;
}

/**
 * Copies a block of `shape` elements, of the same rank as both tensors. The caller must keep it within both tensors'
 * bytes.
 */
export function copyBlock(
  from: BlockOwner,
  to: BlockOwner,
  { shape, type }: { readonly shape: readonly number[]; readonly type: DataType },
): void {
  let inner = shape.length; // axes from here on are whole in both, so a run covers them all
  let run = bytesOf(type);
  const isWhole = (axis: number): boolean => from.dims[axis] === shape[axis] && to.dims[axis] === shape[axis];
  while (inner > 0 && isWhole(inner - 1)) run *= shape[--inner]!;
  let runBytes = run;
  if (inner > 0) runBytes *= shape[--inner]!; // the innermost axis that is not: its part is contiguous as well
  if (runBytes === 0 || shape.includes(0)) return;
  const fromStrides = stridesOf(from.dims, inner, run);
  const toStrides = stridesOf(to.dims, inner, run);
  const index = new Array<number>(inner).fill(0);
  for (;;) {
    let [read, write] = [from.byteOffset, to.byteOffset];
    for (let axis = 0; axis < inner; axis++) {
      read += index[axis]! * fromStrides[axis]!;
      write += index[axis]! * toStrides[axis]!;
    }
    to.bytes.set(from.bytes.subarray(read, read + runBytes), write);
    let axis = inner - 1;
    while (axis >= 0 && ++index[axis]! === shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

/** Bytes between neighbours along each axis before `inner`; `run` is the bytes of one element of the axis `inner`. */
function stridesOf(dims: readonly number[], inner: number, run: number): number[] {
  const strides = new Array<number>(inner);
  let stride = run * (dims[inner] ?? 1);
  for (let axis = inner - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= dims[axis]!;
  }
  return strides;
}

/** Fills with one value of a type. @throws {TuttiError} INVALID_INPUT where the type can't hold it, naming `name` */
export function fillWith(bytes: Uint8Array, name: string, { type, value }: { type: DataType; value: number }): void {
  if (value === 0) return void bytes.fill(0);
  const element = bytesFromValues(name, type, [1], [type === "BOOL" ? value !== 0 : value]);
  bytes.set(element.subarray(0, bytes.byteLength));
  for (let filled = element.byteLength; filled < bytes.byteLength; filled *= 2) bytes.copyWithin(filled, 0, filled);
}
