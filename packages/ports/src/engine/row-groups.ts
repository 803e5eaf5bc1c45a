/** Groups the rows of a family's batch by variant. */
import { type Tensor, VARIANT_INPUT, bytesOf, elementCount } from "@tutti/protocol";
import type { EngineBatch, RowGroup } from "./engine.ts";

/** The variants in a batch, the lowest first, each with its rows; none if the batch has no variant input. */
export function groupsOf({ inputs }: Pick<EngineBatch, "inputs">): Pick<RowGroup, "variant" | "rows">[] {
  const data = inputs.find(({ name }) => name === VARIANT_INPUT)?.data;
  if (data === undefined) return [];
  const byVariant = new Map<number, number[]>();
  for (let row = 0; 2 * row + 1 < data.byteLength; row++) {
    const variant = data[2 * row]! | (data[2 * row + 1]! << 8);
    const rows = byVariant.get(variant);
    if (rows === undefined) byVariant.set(variant, [row]);
    else rows.push(row);
  }
  return [...byVariant].sort(([a], [b]) => a - b).map(([variant, rows]) => ({ variant, rows }));
}

/** These rows as a batch of their own; the tensor itself if they are all of its rows, in its order. */
export function gatherRows(batch: Tensor, axis: number, rows: readonly number[]): Tensor {
  const count = batch.dims[axis]!;
  if (rows.length === count && rows.every((row, i) => row === i)) return batch;
  const outer = elementCount(batch.dims.slice(0, axis));
  const inner = elementCount(batch.dims.slice(axis + 1)) * bytesOf(batch.type);
  const data = new Uint8Array(outer * rows.length * inner);
  for (let piece = 0; piece < outer; piece++) {
    rows.forEach((row, i) => {
      const from = (piece * count + row) * inner;
      data.set(batch.data.subarray(from, from + inner), (piece * rows.length + i) * inner);
    });
  }
  return { ...batch, dims: batch.dims.map((dim, at) => (at === axis ? rows.length : dim)), data };
}
