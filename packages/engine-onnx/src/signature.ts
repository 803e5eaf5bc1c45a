/**
 * Checks of tensors against specs, because onnxruntime's errors carry no codes, and it ignores some mistakes (such as
 * extra inputs). Each returns the problem, or undefined.
 */
import { type EngineBatch, runSizes } from "@tutti/ports/engine";
import {
  BATCH_AXIS,
  BATCH_SIZE_MAX,
  type ModelSpec,
  type TensorSpec,
  bytesOf,
  elementCount,
  fedInputs,
} from "@tutti/protocol";
import type ort from "onnxruntime-node";
import { ortTypeOf } from "./tensor-types.ts";

type Metadata = readonly ort.InferenceSession.ValueMetadata[];

/** Checks that spec and file have the same inputs and outputs. */
export function signatureProblem(spec: ModelSpec, inputs: Metadata, outputs: Metadata): string | undefined {
  const fed = [...fedInputs(spec), ...spec.constants];
  const missing = inputs.find(({ name }) => !fed.some((tensor) => tensor.name === name));
  if (missing !== undefined) return `the file has an input '${missing.name}' that the spec leaves out`;
  for (const tensor of fed) {
    const problem = valueProblem("input", tensor, inputs);
    if (problem !== undefined) return problem;
  }
  return outputsProblem(spec, outputs);
}

/** Checks that the file has the outputs of the spec. Their shapes are those of a run: the file may declare others. */
export function outputsProblem(spec: Pick<ModelSpec, "outputs">, outputs: Metadata): string | undefined {
  for (const tensor of spec.outputs) {
    const problem = valueProblem("output", tensor, outputs);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function valueProblem(role: "input" | "output", tensor: TensorSpec, values: Metadata): string | undefined {
  const found = values.find(({ name }) => name === tensor.name);
  if (found === undefined) {
    return `the file has no ${role} '${tensor.name}'; it has ${values.map(({ name }) => name).join(", ")}`;
  }
  if (!found.isTensor) return `${role} '${tensor.name}' is no tensor`;
  if (found.type !== ortTypeOf(tensor.type)) {
    return `${role} '${tensor.name}' is ${found.type} in the file, ${ortTypeOf(tensor.type)} in the spec`;
  }
  if (role === "output") return undefined;
  // A shape that the file leaves out reads as [], which a scalar's does too: a run of another rank fails.
  if (found.shape.length === 0) return undefined;
  const agrees = (own: number | string, axis: number): boolean => {
    const dim = tensor.dims[axis];
    return typeof own === "string" || typeof dim === "string" || own === dim;
  };
  if (found.shape.length === tensor.dims.length && found.shape.every(agrees)) return undefined;
  return `${role} '${tensor.name}' is [${found.shape.join(", ")}] in the file, [${tensor.dims.join(", ")}] in the spec`;
}

/**
 * Checks that this batch can run on that model. The ingress has checked each input; this check covers batches that came
 * another way.
 */
export function batchProblem(spec: ModelSpec, batch: EngineBatch): string | undefined {
  const { batchSize, inputs } = batch;
  const bucket = spec.buckets[batch.bucket];
  if (bucket === undefined) return `there is no bucket ${batch.bucket}; there are ${spec.buckets.length}`;
  if (!Number.isSafeInteger(batchSize) || batchSize < 1 || batchSize > BATCH_SIZE_MAX) {
    return `a batch of ${batchSize} can't run`;
  }
  const taken = fedInputs(spec);
  if (inputs.length !== taken.length) return `${inputs.length} inputs were given, ${taken.length} are taken`;
  const sizes = runSizes(spec, batch);
  for (const [i, declared] of taken.entries()) {
    const given = inputs[i] as EngineBatch["inputs"][number];
    if (given.name !== declared.name) return `input ${i} is '${given.name}', not '${declared.name}'`;
    if (given.type !== declared.type) return `input '${given.name}' is ${given.type}, not ${declared.type}`;
    const dims = declared.dims.map((dim) =>
      dim === BATCH_AXIS ? batchSize : typeof dim === "number" ? dim : (sizes[dim] ?? -1),
    );
    if (String(given.dims) !== String(dims)) {
      return `input '${given.name}' is [${given.dims.join(", ")}], not [${dims.join(", ")}]`;
    }
    const bytes = elementCount(dims) * bytesOf(declared.type);
    if (given.data.byteLength !== bytes)
      return `input '${given.name}' has ${given.data.byteLength} bytes, not ${bytes}`;
    if (given.data.byteOffset % bytesOf(declared.type) !== 0)
      return `input '${given.name}' isn't aligned to its elements`;
  }
  if (batchSize > 1 && [...taken, ...spec.outputs].some(({ dims }) => !dims.includes(BATCH_AXIS))) {
    return "a model with a tensor that has no batch axis runs one item at a time";
  }
  return undefined;
}
