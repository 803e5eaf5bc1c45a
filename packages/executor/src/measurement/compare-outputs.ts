import type { DataType, Tensor } from "@tutti/protocol";
import { fromHalf } from "@tutti/wire";

/** Largest difference that counts as equal: absolute, and relative to the first value if that is larger than 1. */
const TOLERANCES: Partial<Record<DataType, number>> = { FP16: 1e-2, FP32: 1e-4, FP64: 1e-9 };

export interface Comparison {
  readonly isEqual: boolean;
  /** The largest absolute difference of two numbers; Infinity if names, types or shapes differ. */
  readonly differenceMost: number;
}

type Reader = (view: DataView, at: number) => number;
const FLOATS: Partial<Record<DataType, { readonly bytes: number; readonly read: Reader }>> = {
  FP16: { bytes: 2, read: (view, at) => fromHalf(view.getUint16(at, true)) },
  FP32: { bytes: 4, read: (view, at) => view.getFloat32(at, true) },
  FP64: { bytes: 8, read: (view, at) => view.getFloat64(at, true) },
};

/**
 * Compares the outputs of two models for the same input.
 *
 * @param tolerance - of numbers with a fraction, by data type when left out; all others must be equal
 */
export function compareOutputs(a: readonly Tensor[], b: readonly Tensor[], tolerance?: number): Comparison {
  let isEqual = a.length === b.length;
  let differenceMost = isEqual ? 0 : Infinity;
  for (const one of a) {
    const other = b.find(({ name }) => name === one.name);
    const found = other === undefined ? UNLIKE : compareTensors(one, other, tolerance ?? TOLERANCES[one.type] ?? 0);
    isEqual &&= found.isEqual;
    differenceMost = Math.max(differenceMost, found.differenceMost);
  }
  return { isEqual, differenceMost };
}
const UNLIKE: Comparison = { isEqual: false, differenceMost: Infinity };

function compareTensors(a: Tensor, b: Tensor, tolerance: number): Comparison {
  if (a.type !== b.type || String(a.dims) !== String(b.dims) || a.data.byteLength !== b.data.byteLength) return UNLIKE;
  const float = FLOATS[a.type];
  if (float === undefined) return a.data.every((byte, i) => byte === b.data[i]) ? SAME : UNLIKE;
  const [left, right] = [viewOf(a.data), viewOf(b.data)];
  let isEqual = true;
  let differenceMost = 0;
  for (let at = 0; at + float.bytes <= left.byteLength; at += float.bytes) {
    const [x, y] = [float.read(left, at), float.read(right, at)];
    if (Object.is(x, y) || x === y) continue;
    const difference = Math.abs(x - y);
    // Neither is a number, or one is infinite.
    if (!(difference <= tolerance * Math.max(1, Math.abs(x)))) isEqual = false;
    differenceMost = Math.max(differenceMost, Number.isNaN(difference) ? Infinity : difference);
  }
  return { isEqual, differenceMost };
}
const SAME: Comparison = { isEqual: true, differenceMost: 0 };

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);
