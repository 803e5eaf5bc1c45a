/** Half floats in a model file, by what stands in it: a spec names those of inputs and outputs alone. */
import type { ModelSpec } from "@tutti/protocol";
import { bufferOf } from "./file-buffer.ts";

/** Cast's `to: FLOAT16` and `to: BFLOAT16`. */
const TO_HALF = [Buffer.from("\x0a\x02to\x18\x0a", "latin1"), Buffer.from("\x0a\x02to\x18\x10", "latin1")];
/** A TensorProto's `data_type`, and the tag of the `name` after it. */
const HALF_TENSORS = [Buffer.from("\x10\x0a\x42", "latin1"), Buffer.from("\x10\x10\x42", "latin1")];
const RAW_DATA = 0x4a;
/** Operators' names, as nodes have them. */
const TRANSPOSE = Buffer.from("\x22\x09Transpose", "latin1");
const PRODUCT = Buffer.from("\x22\x06MatMul", "latin1");

/** Whether the model computes in half floats, in part at least. */
export function hasHalfFloats({ inputs, outputs }: Pick<ModelSpec, "inputs" | "outputs">, bytes: Uint8Array): boolean {
  if ([...inputs, ...outputs].some(({ type }) => type === "FP16")) return true;
  const file = bufferOf(bytes);
  return TO_HALF.some((to) => file.includes(to)) || hasHalfWeights(file);
}

/**
 * Whether onnxruntime 1.30 would end the process when it makes a session of the file with all optimizations: a
 * transposed tensor times half-float weights does that, in the step that lays out convolutions anew for CPUs.
 */
export function endsLayoutOfConvolutions(bytes: Uint8Array): boolean {
  const file = bufferOf(bytes);
  return file.includes(TRANSPOSE) && file.includes(PRODUCT) && hasHalfWeights(file);
}

/** Weights of other types contain the first three bytes by chance, and seldom a name and a tag behind them. */
function hasHalfWeights(file: Buffer): boolean {
  return HALF_TENSORS.some((type) => {
    for (let at = file.indexOf(type); at >= 0; at = file.indexOf(type, at + 1)) {
      const from = at + type.length + 1;
      const end = from + file[from - 1]!;
      if (file[end] === RAW_DATA && file.subarray(from, end).every((byte) => byte > 0x20 && byte < 0x7f)) return true;
    }
    return false;
  });
}
