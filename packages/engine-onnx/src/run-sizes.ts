/**
 * Sizes that batches are filled up to with copies of their last row, where every size costs a session (sessions.ts):
 * each up to 8, then four to an octave, so a run has at most a quarter more rows than its batch.
 */
import { gatherRows } from "@tutti/ports/engine";
import type { Tensor } from "@tutti/protocol";
import { takeRows } from "./batch-rows.ts";

/** The size in which a batch of `batchSize` runs, at most `batchSizeMax`. */
export function runSizeOf(batchSize: number, batchSizeMax: number): number {
  if (batchSize <= 8) return batchSize;
  const step = 2 ** (Math.floor(Math.log2(batchSize - 1)) - 2);
  return Math.min(batchSizeMax, Math.ceil(batchSize / step) * step);
}

/** All of them, ascending; the last is `batchSizeMax`. */
export function runSizesOf(batchSizeMax: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size <= batchSizeMax; size++) {
    const run = runSizeOf(size, batchSizeMax);
    if (run === size) sizes.push(size);
  }
  return sizes;
}

/** Fills a tensor of rows up to `rows` with copies of its last row. @param axis - of the rows; −1: it has none */
export function filledUp(tensor: Tensor, axis: number, rows: number): Tensor {
  const count = axis < 0 ? rows : tensor.dims[axis]!;
  if (count === rows) return tensor;
  return gatherRows(
    tensor,
    axis,
    Array.from({ length: rows }, (_, row) => Math.min(row, count - 1)),
  );
}

/** The first `batchSize` rows of an output of a run of `rows`. Another number of rows stays, to be found wrong. */
export function cutBack(
  tensor: Tensor,
  axis: number,
  { rows, batchSize }: { rows: number; batchSize: number },
): Tensor {
  return axis < 0 || rows === batchSize || tensor.dims[axis] !== rows ? tensor : takeRows(tensor, axis, 0, batchSize);
}
