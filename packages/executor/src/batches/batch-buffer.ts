import {
  BATCH_AXIS,
  type ModelSpec,
  type RowLayout,
  type Tensor,
  bytesOf,
  elementCount,
  ownLength,
  rowLayout,
} from "@tutti/protocol";
import { copyBlock } from "@tutti/wire";

/**
 * Collects the inputs of one batch. Each row is copied once, into its place in the buffers that the engine will own.
 * Rows arrive in any order and take the next free place; rows that never come leave the batch smaller.
 */
export class BatchBuffer {
  readonly #spec: ModelSpec;
  readonly #layout: RowLayout;
  readonly #capacity: number;
  readonly #buffers: Uint8Array[];
  #rows = 0;

  constructor(spec: ModelSpec, bucket: number, capacity: number) {
    this.#spec = spec;
    this.#layout = rowLayout(spec, bucket);
    this.#capacity = capacity;
    this.#buffers = this.#layout.inputs.map((input) => new Uint8Array(input.byteLength * capacity));
  }

  get rows(): number {
    return this.#rows;
  }

  /** @returns false for a row of the wrong length, which is not added: it would shift its neighbours */
  add(row: Uint8Array): boolean {
    if (row.byteLength !== this.#layout.byteLength || this.#rows === this.#capacity) return false;
    const place = this.#rows++;
    for (let i = 0; i < this.#buffers.length; i++) {
      const { offset, byteLength } = this.#layout.inputs[i]!;
      const outer = this.#outer(i);
      const inner = byteLength / outer;
      const buffer = this.#buffers[i]!;
      for (let o = 0; o < outer; o++) {
        const from = offset + o * inner;
        buffer.set(row.subarray(from, from + inner), (o * this.#capacity + place) * inner);
      }
    }
    return true;
  }

  /** The tensors of the batch, batch axis = rows; their buffers now belong to the receiver. */
  take(): Tensor[] {
    return this.#spec.inputs.map(({ name, type }, i) => {
      const { dims, batchAxis } = this.#layout.inputs[i]!;
      return {
        name,
        type,
        dims: dims.map((dim, axis) => (axis === batchAxis ? this.#rows : dim)),
        data: this.#trimmed(i),
      };
    });
  }

  /** Blocks before the batch axis: 1 if the batch axis comes first, as it nearly always does. */
  #outer(input: number): number {
    const { dims, batchAxis } = this.#layout.inputs[input]!;
    return dims.slice(0, Math.max(0, batchAxis)).reduce((product, dim) => product * dim, 1);
  }

  #trimmed(input: number): Uint8Array {
    const buffer = this.#buffers[input]!;
    if (this.#rows === this.#capacity) return buffer;
    const outer = this.#outer(input);
    const inner = this.#layout.inputs[input]!.byteLength / outer;
    const smaller = new Uint8Array(outer * this.#rows * inner);
    for (let o = 0; o < outer; o++) {
      const from = o * this.#capacity * inner;
      smaller.set(buffer.subarray(from, from + this.#rows * inner), o * this.#rows * inner);
    }
    return smaller;
  }
}

/** Place of one request in a batch's output. */
export interface OutputPlace {
  readonly row: number;
  readonly batchSize: number;
  /** Lengths of the row's padded axes: outputs that follow these axes are cut back to them. */
  readonly lengths: readonly number[];
}

/**
 * One request's part of a batch's output, batch axis 1. It is a view if the batch axis comes first and nothing is cut.
 */
export function rowOfOutput(spec: ModelSpec, output: Tensor, { row, batchSize, lengths }: OutputPlace): Tensor {
  const declared = spec.outputs.find((candidate) => candidate.name === output.name);
  const axis = declared?.dims.indexOf(BATCH_AXIS) ?? 0;
  // An output without a batch axis belongs to the whole batch: every request gets it.
  if (axis < 0 || output.dims[axis] !== batchSize) return output;
  const whole = output.dims.map((dim, i) => (i === axis ? 1 : dim));
  const dims = whole.map((dim, i) => Math.min(dim, ownLength(spec, declared?.dims[i] ?? dim, lengths) ?? dim));
  const outer = output.dims.slice(0, axis).reduce((product, dim) => product * dim, 1);
  const inner = output.dims.slice(axis + 1).reduce((product, dim) => product * dim, bytesOf(output.type));
  const { name, type } = output;
  if (outer === 1 && String(dims) === String(whole))
    return { name, type, dims, data: output.data.subarray(row * inner, (row + 1) * inner) };
  const data = new Uint8Array(elementCount(dims) * bytesOf(type));
  const from = { bytes: output.data, dims: output.dims, byteOffset: row * inner };
  copyBlock(from, { bytes: data, dims, byteOffset: 0 }, { shape: dims, type });
  return { name, type, dims, data };
}
