import {
  BATCH_AXIS,
  type MadeSpec,
  type ModelSpec,
  type RowLayout,
  type Tensor,
  type TensorSpec,
  bytesOf,
  elementCount,
  grownLengths,
  mayMix,
  padValueOf,
  paddedAxes,
  readLengths,
  rowDims,
  rowLayout,
  sizesOfRow,
  unitsOfLengths,
} from "@tutti/protocol";
import { copyBlock, fillWith } from "@tutti/wire";
import { BatchBuffer } from "./batch-buffer.ts";

/** Rows that run together, as an engine takes them. */
export interface BatchPart {
  /** Places among the rows of the buffer, in the order of their arrival. */
  readonly rows: readonly number[];
  readonly inputs: readonly Tensor[];
  /** Units of each row, if its model has padded axes. */
  readonly units?: readonly number[];
}

/** Collects the inputs of one batch. */
export interface RowBuffer {
  readonly rows: number;
  /** @returns false for bytes that are no row of this model, which are not added */
  add(row: Uint8Array): boolean;
  /** Lengths of a row's padded axes. */
  lengthsOf(row: number): readonly number[];
  /**
   * The parts that run together. There are several only if rows of unlike lengths can't share a run. The buffers now
   * belong to the receiver.
   */
  parts(): BatchPart[];
  /** All rows as one part, regardless of their lengths. */
  whole(): BatchPart;
}

export const rowBuffer = (spec: ModelSpec, bucket: number, capacity: number): RowBuffer =>
  paddedAxes(spec).length === 0 ? new FixedRows(spec, bucket, capacity) : new PaddedBuffer(spec, { bucket, capacity });

class FixedRows implements RowBuffer {
  readonly #buffer: BatchBuffer;

  constructor(spec: ModelSpec, bucket: number, capacity: number) {
    this.#buffer = new BatchBuffer(spec, bucket, capacity);
  }
  get rows(): number {
    return this.#buffer.rows;
  }
  add(row: Uint8Array): boolean {
    return this.#buffer.add(row);
  }
  lengthsOf(): readonly number[] {
    return [];
  }
  parts(): BatchPart[] {
    return [this.whole()];
  }
  whole(): BatchPart {
    return { rows: Array.from({ length: this.rows }, (_, i) => i), inputs: this.#buffer.take() };
  }
}

interface KeptRow {
  readonly bytes: Uint8Array;
  readonly lengths: readonly number[];
}

/**
 * Buffer for rows of unlike lengths. The length of the batch is known only when all rows are there, so each is copied
 * twice: when it comes, because it is borrowed, and into its place. Places behind a row's data hold the axis' padding;
 * masks and lengths are made here.
 */
class PaddedBuffer implements RowBuffer {
  readonly #spec: ModelSpec;
  readonly #bucket: number;
  readonly #capacity: number;
  readonly #rows: KeptRow[] = [];

  constructor(spec: ModelSpec, { bucket, capacity }: { readonly bucket: number; readonly capacity: number }) {
    this.#spec = spec;
    this.#bucket = bucket;
    this.#capacity = capacity;
  }

  get rows(): number {
    return this.#rows.length;
  }

  add(row: Uint8Array): boolean {
    const lengths = readLengths(this.#spec, row);
    if (lengths === undefined || this.#rows.length === this.#capacity) return false;
    if (row.byteLength !== rowLayout(this.#spec, this.#bucket, lengths).byteLength) return false;
    this.#rows.push({ bytes: new Uint8Array(row), lengths }); // Buffer.slice would share borrowed memory
    return true;
  }

  lengthsOf(row: number): readonly number[] {
    return this.#rows[row]?.lengths ?? [];
  }

  parts(): BatchPart[] {
    if (mayMix(this.#spec)) return [this.whole()];
    const groups = new Map<string, number[]>();
    this.#rows.forEach(({ lengths }, row) => {
      const key = grownLengths(this.#spec, lengths).join();
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [row]);
      else group.push(row);
    });
    return [...groups.values()].map((rows) => this.#part(rows));
  }

  whole(): BatchPart {
    return this.#part(this.#rows.map((_, row) => row));
  }

  #part(rows: readonly number[]): BatchPart {
    const kept = rows.map((row) => this.#rows[row]!);
    const longest = paddedAxes(this.#spec).map((_, axis) => Math.max(...kept.map(({ lengths }) => lengths[axis]!)));
    const sizes = sizesOfRow(this.#spec, this.#bucket, grownLengths(this.#spec, longest));
    const layouts = kept.map(({ lengths }) => rowLayout(this.#spec, this.#bucket, lengths));
    const sent = this.#spec.inputs.map((input, i) =>
      joined(input, rowDims(input, sizes), {
        pad: padValueOf(this.#spec, input),
        rows: kept.map(({ bytes }, row) => partOf(bytes, layouts[row]!, i)),
      }),
    );
    const made = (this.#spec.made ?? []).map((input) =>
      joined(input, rowDims(input, sizes), { pad: 0, rows: kept.map(({ lengths }) => this.#made(input, lengths)) }),
    );
    return { rows, inputs: [...sent, ...made], units: kept.map(({ lengths }) => unitsOfLengths(lengths)) };
  }

  /** A mask's ones, or a row's length. */
  #made(input: MadeSpec, lengths: readonly number[]): RowPart {
    const dims = rowDims(input, sizesOfRow(this.#spec, this.#bucket, lengths));
    const data = new Uint8Array(elementCount(dims) * bytesOf(input.type));
    const value = input.made === "mask" ? 1 : (lengths[paddedAxes(this.#spec).indexOf(input.axis)] ?? 0);
    fillWith(data, input.name, { type: input.type, value });
    return { dims, data };
  }
}

interface RowPart {
  readonly dims: readonly number[];
  readonly data: Uint8Array;
}

function partOf(row: Uint8Array, layout: RowLayout, input: number): RowPart {
  const { offset, byteLength, dims } = layout.inputs[input]!;
  return { dims, data: row.subarray(offset, offset + byteLength) };
}

/** One tensor of all rows, each in the low corner of its place. */
function joined(
  { name, type, dims: declared }: TensorSpec,
  place: readonly number[],
  { rows, pad }: { readonly rows: readonly RowPart[]; readonly pad: number },
): Tensor {
  const axis = declared.indexOf(BATCH_AXIS);
  const dims = place.map((dim, i) => (i === axis ? rows.length : dim));
  const bytes = new Uint8Array(elementCount(dims) * bytesOf(type));
  if (pad !== 0 && rows.some((row) => String(row.dims) !== String(place))) fillWith(bytes, name, { type, value: pad });
  const inner = elementCount(dims.slice(axis + 1)) * bytesOf(type);
  rows.forEach((row, i) =>
    copyBlock(
      { bytes: row.data, dims: row.dims, byteOffset: 0 },
      { bytes, dims, byteOffset: axis < 0 ? 0 : i * inner },
      { shape: row.dims, type },
    ),
  );
  return { name, type, dims, data: bytes };
}
