import { type Tensor, bytesOf, elementCount } from "@tutti/protocol";

/** How the bytes of one row lie in a batch: `outer` pieces of `inner` bytes, `stride` apart. Piece 0 of row r is at r × inner. */
interface RowPieces {
  readonly outer: number;
  readonly inner: number;
  readonly stride: number;
}

/** The batch axis need not come first: a state [2, batch, 128] has its rows in two pieces each. */
function piecesOf({ dims, type }: Pick<Tensor, "dims" | "type">, axis: number): RowPieces {
  const inner = elementCount(dims.slice(axis + 1)) * bytesOf(type);
  return { outer: elementCount(dims.slice(0, axis)), inner, stride: inner * (dims[axis] as number) };
}

const withRows = (dims: readonly number[], axis: number, rows: number): number[] =>
  dims.map((dim, i) => (i === axis ? rows : dim));

/** Row `row` of a batch as a batch of one, copied. */
export function takeRow(batch: Tensor, axis: number, row: number): Tensor {
  const { outer, inner, stride } = piecesOf(batch, axis);
  const data = new Uint8Array(outer * inner);
  for (let piece = 0; piece < outer; piece++) {
    const from = piece * stride + row * inner;
    data.set(batch.data.subarray(from, from + inner), piece * inner);
  }
  return { ...batch, dims: withRows(batch.dims, axis, 1), data };
}

/** A batch of `rows` zero rows shaped like `one`, which is a batch of one. */
export function emptyBatch(one: Tensor, axis: number, rows: number): Tensor {
  return { ...one, dims: withRows(one.dims, axis, rows), data: new Uint8Array(one.data.byteLength * rows) };
}

/** Writes `one`, a batch of one, into row `row` of `batch`. */
export function putRow(batch: Tensor, axis: number, row: number, one: Tensor): void {
  const { outer, inner, stride } = piecesOf(batch, axis);
  for (let piece = 0; piece < outer; piece++) {
    batch.data.set(one.data.subarray(piece * inner, (piece + 1) * inner), piece * stride + row * inner);
  }
}
