import {
  type ModelSpec,
  bytesOf,
  rowLayout,
  typicalLengths,
  variantCount,
  writeLengths,
  writeVariant,
} from "@tutti/protocol";
import type { Prng } from "@tutti/units";

/**
 * A row of the declared shapes to measure or warm up with; padded axes have their typical length. Floats are in [−1,
 * 1), integers 0 or 1, which every vocabulary has.
 */
export function randomRow(spec: ModelSpec, bucket: number, prng: Prng): Uint8Array {
  const lengths = typicalLengths(spec);
  const layout = rowLayout(spec, bucket, lengths);
  const row = new Uint8Array(layout.byteLength);
  writeLengths(row, lengths);
  const view = new DataView(row.buffer);
  layout.inputs.forEach(({ offset, byteLength }, i) => {
    const { type } = spec.inputs[i]!;
    const size = bytesOf(type);
    for (let at = offset; at < offset + byteLength; at += size) {
      if (type === "FP32") view.setFloat32(at, prng.nextFloat() * 2 - 1, true);
      else if (type === "FP64") view.setFloat64(at, prng.nextFloat() * 2 - 1, true);
      else if (type === "FP16") view.setUint16(at, 0x3000 | (prng.nextUint32() & 0x3ff), true);
      else view.setUint8(at, prng.nextUint32() & 1);
    }
  });
  if (spec.family !== undefined) writeVariant(row, prng.nextInt(variantCount(spec)));
  return row;
}
