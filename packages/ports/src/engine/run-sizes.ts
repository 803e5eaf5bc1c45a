import { type ModelSpec, fedInputs, grownLengths, longestLengths, paddedAxes } from "@tutti/protocol";
import type { EngineBatch } from "./engine.ts";

/**
 * Sizes of every named axis in one batch. Bucketed axes have the bucket's size. Padded axes have the size in the first
 * input with the axis, up to the longest allowed. An axis without a valid size is left out.
 */
export function runSizes(spec: ModelSpec, { bucket, inputs }: EngineBatch): Readonly<Record<string, number>> {
  const sizes: Record<string, number> = { ...spec.buckets[bucket] };
  const axes = paddedAxes(spec);
  const longest = grownLengths(spec, longestLengths(spec));
  axes.forEach((axis, i) => {
    for (const [at, declared] of fedInputs(spec).entries()) {
      const size = inputs[at]?.dims[declared.dims.indexOf(axis)];
      if (size === undefined) continue;
      if (size >= 1 && size <= longest[i]!) sizes[axis] = size;
      return;
    }
  });
  return sizes;
}
