import { type Tensor, bytesOf, elementCount } from "@tutti/protocol";

/**
 * Layout of one row's bytes in a batch: `outer` pieces of `inner` bytes, `stride` apart. Piece 0 of row r is at r ×
 * inner.
 */
interface RowPieces {
  readonly outer: number;
  readonly inner: number;
  readonly stride: number;
}

/** Pieces of a row. The batch axis need not come first, and a state [2, batch, 128] has its rows in two pieces each. */
function piecesOf({ dims, type }: Pick<Tensor, "dims" | "type">, axis: number): RowPieces {
  const inner = elementCount(dims.slice(axis + 1)) * bytesOf(type);
  return { outer: elementCount(dims.slice(0, axis)), inner, stride: inner * (dims[axis] as number) };
}

const withRows = (dims: readonly number[], axis: number, rows: number): number[] =>
  dims.map((dim, i) => (i === axis ? rows : dim));

/** Rows `from` … `from + count - 1` as a batch of their own, copied. */
export function takeRows(batch: Tensor, axis: number, from: number, count: number): Tensor {
  const { outer, inner, stride } = piecesOf(batch, axis);
  const length = count * inner;
  const data = new Uint8Array(outer * length);
  for (let piece = 0; piece < outer; piece++) {
    const start = piece * stride + from * inner;
    data.set(batch.data.subarray(start, start + length), piece * length);
  }
  return { ...batch, dims: withRows(batch.dims, axis, count), data };
}
export const takeRow = (batch: Tensor, axis: number, row: number): Tensor => takeRows(batch, axis, row, 1);

/**
 * A batch of `rows` zero rows shaped like those of `part`. Without a batch axis (−1) it is shaped like `part` itself.
 */
export function emptyBatch(part: Tensor, axis: number, rows: number): Tensor {
  const times = axis < 0 ? 1 : rows / (part.dims[axis] as number);
  return { ...part, dims: withRows(part.dims, axis, rows), data: new Uint8Array(part.data.byteLength * times) };
}

/** Writes the rows of `part` into `batch`, from row `from` on; all of it where there is no batch axis. */
export function putRows(batch: Tensor, axis: number, from: number, part: Tensor): void {
  if (axis < 0) return batch.data.set(part.data);
  const { outer, inner, stride } = piecesOf(batch, axis);
  const length = inner * (part.dims[axis] as number);
  for (let piece = 0; piece < outer; piece++)
    batch.data.set(part.data.subarray(piece * length, (piece + 1) * length), piece * stride + from * inner);
}

/** Shape that all rows of a batch share: its dims without the number of rows. */
export const rowShape = ({ dims }: Tensor, axis: number): string => withRows(dims, axis, 1).join("×");
