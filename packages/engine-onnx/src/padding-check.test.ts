import type { ModelSpec, Tensor } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { paddingDifference } from "./padding-check.ts";

/** A model of one row: its input has these axes, of at most eight elements each, and so has its output. */
function specOf(axes: Readonly<Record<string, object>>, outputDims: readonly string[]): ModelSpec {
  const padded = Object.entries(axes).map(([name, more]) => [name, { mode: "pad", sizes: [8], ...more }]);
  return {
    ...{ name: "m", buckets: [{}], batchSizeMax: 4, axes: Object.fromEntries(padded) as object },
    inputs: [{ name: "x", type: "FP32", dims: ["batch", ...Object.keys(axes)] }],
    outputs: [{ name: "y", type: "FP32", dims: ["batch", ...outputDims] }],
  } as unknown as ModelSpec;
}

const floats = ({ data }: Tensor): Float32Array =>
  new Float32Array(data.buffer, data.byteOffset, data.byteLength / Float32Array.BYTES_PER_ELEMENT);

const output = (values: Float32Array): Tensor[] => [
  { name: "y", type: "FP32", dims: [1, values.length], data: new Uint8Array(values.buffer) } as unknown as Tensor,
];

/** Mean over the input's first axis. */
async function meanOfFirst([x]: readonly Tensor[]): Promise<Tensor[]> {
  const [, a = 1, b = 1] = x!.dims;
  const values = floats(x!);
  return output(
    Float32Array.from({ length: b }, (_, j) => {
      let sum = 0;
      for (let i = 0; i < a; i++) sum += values[i * b + j]!;
      return sum / a;
    }),
  );
}

test("a mean over a padded axis is found, but not over one that its operator has judged", async () => {
  expect(await paddingDifference(specOf({ A: {} }, ["one"]), meanOfFirst)).toMatch(/axes\.A in config\.yaml/);
  expect(await paddingDifference(specOf({ A: { mixed: true }, B: {} }, ["B"]), meanOfFirst)).toBeUndefined();
});

test("a model that answers the same row in two ways isn't refused for it", async () => {
  const prng = new Prng(7);
  const samples = async ([x]: readonly Tensor[]) =>
    output(Float32Array.from({ length: x!.dims[1]! }, () => prng.nextExponential(1)));
  expect(await paddingDifference(specOf({ A: {} }, ["A"]), samples)).toBeUndefined();
});

test("an answer that is no number for a padded row is called so", async () => {
  const broken = async ([x]: readonly Tensor[]) =>
    output(new Float32Array(x!.dims[1]!).fill(x!.dims[1]! > 4 ? Number.NaN : 1));
  expect(await paddingDifference(specOf({ A: {} }, ["A"]), broken)).toMatch(/differs by a value that is no number/);
});
