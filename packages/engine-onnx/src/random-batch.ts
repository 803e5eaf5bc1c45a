import type { EngineBatch } from "@tutti/ports/engine";
import {
  BATCH_AXIS,
  type ModelSpec,
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
}

/**
 * A batch of the declared shapes for trying a model. Padded axes have their typical length. Values are floats in [−1,
 * 1), integers 0 or 1 (often an index, and those always exist).
 *
 * Equal seeds give equal batches.
 */
export function randomBatch(
  spec: ModelSpec,
  { bucket, batchSize, seed, sizes = sizesOfRow(spec, bucket, typicalLengths(spec)) }: RandomBatchOptions,
): EngineBatch {
  const prng = new Prng(seed);
  const dimsOf = (tensor: TensorSpec): number[] =>
    tensor.dims.map((dim) => (dim === BATCH_AXIS ? batchSize : typeof dim === "number" ? dim : (sizes[dim] ?? 1)));
  const inputs = spec.inputs.map((tensor) =>
    tensor.name === VARIANT_INPUT
      ? variantsInTurn(tensor, batchSize, variantCount(spec))
      : randomTensor(tensor, dimsOf(tensor), prng),
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

function randomTensor({ name, type }: TensorSpec, dims: readonly number[], prng: Prng): Tensor {
  const count = elementCount(dims);
  if (type === "FP32") {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = prng.nextFloat() * 2 - 1;
    return { name, type, dims, data: new Uint8Array(values.buffer) };
  }
  const float = type === "FP16" || type === "FP64";
  const values = Array.from({ length: count }, () => (float ? prng.nextFloat() * 2 - 1 : prng.nextInt(2)));
  return { name, type, dims, data: bytesFrom(type, values) };
}
