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

/** The same with an axis in mode `bucket`, which each request is padded along to the next size. */
const bucketed = (axis: object, outputDims: readonly string[]): ModelSpec => ({
  ...specOf({ A: { mode: "bucket", padValue: 0, ...axis } }, outputDims),
  buckets: [{ A: 4 }, { A: 8 }],
});

test("a mean over a bucketed axis is found, but not what its operator accepts, nor along a lone size", async () => {
  const found = await paddingDifference(bucketed({ sizes: [4, 8] }, ["one"]), meanOfFirst);
  expect(found).toMatch(
    /a row of A 4 padded to 8 differs by .* % .*axes\.A in config\.yaml: `mode: pad` with `max` and `mixed: false`/,
  );
  expect(await paddingDifference(bucketed({ sizes: [8] }, ["one"]), meanOfFirst)).toBeUndefined();
  expect(await paddingDifference(bucketed({ sizes: [4, 8], mixed: true }, ["one"]), meanOfFirst)).toBeUndefined();
});

test("every size is padded to the next one: a model may answer alike up to a size, and not beyond", async () => {
  const axes = { A: { mode: "bucket", sizes: [2, 4, 8] }, B: { mode: "bucket", sizes: [2, 4] } };
  const spec = { ...specOf(axes, ["A"]), buckets: [{ A: 2, B: 2 }] } as unknown as ModelSpec;
  const shapes: string[] = [];
  const meanBeyond4 = async (inputs: readonly Tensor[]): Promise<Tensor[]> => {
    const [, a = 1, b = 1] = inputs[0]!.dims;
    shapes.push(`${a}x${b}`);
    return a > 4 ? meanOfFirst(inputs) : output(new Float32Array(a).fill(1));
  };
  expect(await paddingDifference(spec, meanBeyond4)).toMatch(/a row of A 4 padded to 8 .*below axes\.A /);
  // Two runs for each step; a third one only where they differ.
  expect(shapes).toEqual(["2x2", "4x4", "4x2", "8x2", "4x2"]);
});

test("an axis of one size doesn't hide what padding does along the others", async () => {
  const oneSize = (wide: readonly number[]): ModelSpec => ({
    ...specOf({ A: { mode: "bucket", sizes: wide }, B: { mode: "bucket", sizes: [4] } }, ["A"]),
    buckets: wide.map((A) => ({ A, B: 4 })),
  });
  const onlyAt4 = async (inputs: readonly Tensor[]): Promise<Tensor[]> => {
    if (inputs[0]!.dims[2] !== 4) throw new Error("B must be 4");
    return meanOfFirst(inputs);
  };
  expect(await paddingDifference(oneSize([4, 8]), onlyAt4)).toMatch(/a row of A 4 padded to 8 .*below axes\.A /);
  expect(await paddingDifference(oneSize([8]), onlyAt4)).toBeUndefined();
});

test("a model that looks at each place of a bucketed axis alone isn't refused, whatever the padding holds", async () => {
  const doubled = async ([x]: readonly Tensor[]) => output(floats(x!).map((value) => 2 * value));
  expect(await paddingDifference(bucketed({ sizes: [4, 8], padValue: 9 }, ["A"]), doubled)).toBeUndefined();
});

test("rows that may not be mixed are still padded along a bucketed axis, which is tried", async () => {
  const both = specOf({ A: { mode: "bucket", sizes: [4, 8] }, B: { mixed: false } }, ["B"]);
  expect(await paddingDifference({ ...both, buckets: [{ A: 4 }, { A: 8 }] }, meanOfFirst)).toMatch(/a row of A 4/);
});
