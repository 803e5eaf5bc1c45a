import type { EngineBatch } from "@tutti/ports/engine";
import {
  BATCH_AXIS,
  type DataType,
  type ModelSpec,
  RANK_MAX,
  type Tensor,
  type TensorSpec,
  elementCount,
  sizesOfRow,
  VARIANT_INPUT,
  typicalLengths,
  variantCount,
} from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { bytesFrom } from "./tensor-types.ts";

export interface RandomBatchOptions {
  readonly bucket: number;
  readonly batchSize: number;
  readonly seed: number;
  /** Size of each named axis; when left out, the bucket's and the typical lengths of padded axes. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** Default: `small`. */
  readonly draw?: Draw;
}

/**
 * How values are drawn. `small`: floats in [−1, 1), integers 0 or 1 (often an index, and those always exist). `range`:
 * integers over the range of their type, wider ones over that of a byte. `text`: floats in [0, 1), integers as the
 * letters of a text. `positive`: floats as in `text`, integers as in `small`.
 */
export type Draw = "small" | "range" | "text" | "positive";

/** Fewer wide integers in a row may be a shape, pads or a length: large ones would take the memory of a host. */
const MAY_BE_SIZES = 2 * RANK_MAX;

/**
 * A batch of the declared shapes for trying a model. Padded axes have their typical length.
 *
 * Equal seeds give equal batches.
 */
export function randomBatch(
  spec: ModelSpec,
  {
    bucket,
    batchSize,
    seed,
    sizes = sizesOfRow(spec, bucket, typicalLengths(spec)),
    draw = "small",
  }: RandomBatchOptions,
): EngineBatch {
  const prng = new Prng(seed);
  const dimsOf = (tensor: TensorSpec): number[] =>
    tensor.dims.map((dim) => (dim === BATCH_AXIS ? batchSize : typeof dim === "number" ? dim : (sizes[dim] ?? 1)));
  const inputs = spec.inputs.map((tensor) =>
    tensor.name === VARIANT_INPUT
      ? variantsInTurn(tensor, batchSize, variantCount(spec))
      : randomTensor(
          { ...tensor, dims: dimsOf(tensor) },
          rangeOf(tensor.type, dimsOf(tensor), { draw, batchSize }),
          prng,
        ),
  );
  const made = (spec.made ?? []).map((tensor) => {
    const dims = dimsOf(tensor);
    const value = tensor.made === "mask" ? 1 : (sizes[tensor.axis] ?? 0);
    const data = bytesFrom(tensor.type, new Array<number>(elementCount(dims)).fill(value));
    return { name: tensor.name, type: tensor.type, dims, data };
  });
  return { model: spec.name, bucket, batchSize, inputs: [...inputs, ...made] };
}

/** As many variants as rows allow: the most expensive batch of a family. */
function variantsInTurn({ name, type }: TensorSpec, rows: number, count: number): Tensor {
  const variants = Uint16Array.from({ length: rows }, (_, row) => row % count);
  return { name, type, dims: [rows], data: new Uint8Array(variants.buffer) };
}

/** Values from the first number to less than the second. */
type Range = readonly [least: number, end: number];

const SMALL: Range = [0, 2];
const BYTES: Range = [0, 256];
const LETTERS: Range = [32, 127];
/** Ranges of integers that are neither a shape nor, as a rule, an index. */
const NARROW: Partial<Record<DataType, Range>> = {
  INT8: [-128, 128],
  UINT8: BYTES,
  INT16: [-32_768, 32_768],
  UINT16: [0, 65_536],
};

function rangeOf(
  type: DataType,
  dims: readonly number[],
  { draw, batchSize }: { readonly draw: Draw; readonly batchSize: number },
): Range {
  if (type.startsWith("FP")) return draw === "text" || draw === "positive" ? [0, 1] : [-1, 1];
  const narrow = NARROW[type];
  const maySize = narrow === undefined && elementCount(dims) <= MAY_BE_SIZES * batchSize;
  if (draw === "small" || draw === "positive" || type === "BOOL" || maySize) return SMALL;
  return draw === "text" ? LETTERS : (narrow ?? BYTES);
}

function randomTensor(
  { name, type, dims }: { readonly name: string; readonly type: DataType; readonly dims: readonly number[] },
  [least, end]: Range,
  prng: Prng,
): Tensor {
  const count = elementCount(dims);
  const scale = end - least;
  if (type === "FP32") {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = prng.nextFloat() * scale + least;
    return { name, type, dims, data: new Uint8Array(values.buffer) };
  }
  const next = type.startsWith("FP")
    ? (): number => prng.nextFloat() * scale + least
    : (): number => prng.nextInt(scale) + least;
  return { name, type, dims, data: bytesFrom(type, Array.from({ length: count }, next)) };
}
