import type { EngineBatch } from "@tutti/engine";
import { type ModelSpec, type Tensor, type TensorSpec, BATCH_AXIS, elementCount } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { bytesFrom } from "./tensor-types.ts";

export interface RandomBatchOptions {
  readonly bucket: number;
  readonly batchSize: number;
  readonly seed: number;
}

/**
 * A batch of the declared shapes for trying a model: floats in [−1, 1), integers 0 or 1 (often an index, and those always exist).
 *
 * Equal seeds give equal batches.
 */
export function randomBatch(spec: ModelSpec, { bucket, batchSize, seed }: RandomBatchOptions): EngineBatch {
  const prng = new Prng(seed);
  const sizes = spec.buckets[bucket] ?? {};
  const inputs = spec.inputs.map((tensor) => {
    const dims = tensor.dims.map((dim) =>
      dim === BATCH_AXIS ? batchSize : typeof dim === "number" ? dim : (sizes[dim] ?? 1),
    );
    return randomTensor(tensor, dims, prng);
  });
  return { model: spec.name, bucket, batchSize, inputs };
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
