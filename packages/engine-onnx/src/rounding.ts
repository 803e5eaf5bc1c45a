/** How far rounding takes outputs of a model apart, as a share of an output's largest value. */
import type { ModelSpec } from "@tutti/protocol";
import { bufferOf } from "./file-buffer.ts";
import { hasHalfFloats } from "./half-floats.ts";

const OF_HALF_FLOATS = 1e-2;
/** The scale of dynamic quantization is that of the whole batch, and one rounding is 1/255 of it, in every layer. */
const OF_QUANTIZED = 0.1;

/** Names as files have them: QuantizeLinear and DynamicQuantizeLinear. */
const QUANTIZE = Buffer.from("QuantizeLinear");

/** Differences of rounding within this file, at least `least`. It reads the whole file. */
export function roundingOf(spec: ModelSpec, bytes: Uint8Array, least: number): number {
  if (bufferOf(bytes).includes(QUANTIZE)) return OF_QUANTIZED;
  return hasHalfFloats(spec, bytes) ? Math.max(least, OF_HALF_FLOATS) : least;
}
