import type { Tensor } from "@tutti/protocol";
import { valuesOf } from "./tensor-types.ts";

/**
 * Difference between two runs of one model. It is, over all outputs, the largest difference of an element as a share of
 * the output's largest value (per element it would be meaningless around zero).
 *
 * @returns 0 … ∞; ∞ where shapes differ, or one has a number and the other none
 */
export function relativeDifference(expected: readonly Tensor[], actual: readonly Tensor[]): number {
  let worst = expected.length === actual.length ? 0 : Infinity;
  for (const [i, tensor] of expected.entries()) {
    const other = actual[i];
    if (other === undefined || String(other.dims) !== String(tensor.dims)) return Infinity;
    worst = Math.max(worst, differenceOf(valuesOf(tensor), valuesOf(other)));
  }
  return worst;
}

function differenceOf(expected: ArrayLike<number | bigint>, actual: ArrayLike<number | bigint>): number {
  let scale = 0;
  let difference = 0;
  for (let i = 0; i < expected.length; i++) {
    const [a, b] = [Number(expected[i]), Number(actual[i])];
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) {
      if (Number.isFinite(a)) scale = Math.max(scale, Math.abs(a));
      continue;
    }
    if (!Number.isFinite(a) || !Number.isFinite(b)) return Infinity;
    scale = Math.max(scale, Math.abs(a));
    difference = Math.max(difference, Math.abs(a - b));
  }
  return difference === 0 ? 0 : difference / Math.max(scale, 1e-6);
}
