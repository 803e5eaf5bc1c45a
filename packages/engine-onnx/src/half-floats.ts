/** Half floats in a model file, by what stands in it: a spec names those of inputs and outputs alone. */
import { elementTypesIn } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";
import { bufferOf } from "./file-buffer.ts";

/** Cast's `to: FLOAT16` and `to: BFLOAT16`. */
const TO_HALF = [Buffer.from("\x0a\x02to\x18\x0a", "latin1"), Buffer.from("\x0a\x02to\x18\x10", "latin1")];
/** `TensorProto.DataType`: FLOAT16 and BFLOAT16. */
const HALF_TYPES = [10, 16];
/** Operators' names, as nodes have them. */
const TRANSPOSE = Buffer.from("\x22\x09Transpose", "latin1");
const PRODUCT = Buffer.from("\x22\x06MatMul", "latin1");

/** Whether the model computes in half floats, in part at least. */
export function hasHalfFloats({ inputs, outputs }: Pick<ModelSpec, "inputs" | "outputs">, bytes: Uint8Array): boolean {
  if ([...inputs, ...outputs].some(({ type }) => type === "FP16")) return true;
  const file = bufferOf(bytes);
  return TO_HALF.some((to) => file.includes(to)) || hasHalfWeights(bytes);
}

/**
 * Whether onnxruntime 1.30 would end the process when it makes a session of the file with all optimizations: a
 * transposed tensor times half-float weights does that, in the step that lays out convolutions anew for CPUs.
 */
export function endsLayoutOfConvolutions(bytes: Uint8Array): boolean {
  const file = bufferOf(bytes);
  return file.includes(TRANSPOSE) && file.includes(PRODUCT) && hasHalfWeights(bytes);
}

/** Weights, and constants in attributes and subgraphs, however their values are written down. */
function hasHalfWeights(bytes: Uint8Array): boolean {
  const types = elementTypesIn(bytes);
  return HALF_TYPES.some((type) => types.has(type));
}
