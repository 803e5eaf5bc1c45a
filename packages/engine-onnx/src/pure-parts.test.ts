import { DATA_TYPES, type DataType, type Tensor, bytesOf, elementCount } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { emptyBatch, putRows, takeRow } from "./batch-rows.ts";
import { relativeDifference } from "./comparison.ts";
import { PROVIDERS, isProvider, providerProblem } from "./provider.ts";
import { bytesFrom, fromOrt, toOrt, valuesOf } from "./tensor-types.ts";

test("taking a batch apart and putting it together again, in any order and along any axis, gives the same bytes", () => {
  const shapes = fc.record({
    dims: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
    axis: fc.nat(3),
    type: fc.constantFrom<DataType>("UINT8", "FP16", "FP32", "INT64"),
    seed: fc.nat(),
  });
  fc.assert(
    fc.property(shapes, ({ dims, axis: wish, type, seed }) => {
      const axis = wish % dims.length;
      const data = Uint8Array.from({ length: elementCount(dims) * bytesOf(type) }, (_, i) => (i * 31 + seed) & 255);
      const batch: Tensor = { name: "t", type, dims, data };
      const rows = Array.from({ length: dims[axis] as number }, (_, row) => takeRow(batch, axis, row));
      const copy = emptyBatch(rows[0] as Tensor, axis, rows.length);
      for (const [row, one] of [...rows.entries()].reverse()) putRows(copy, axis, row, one);
      expect(copy).toEqual(batch);
    }),
  );
});

const floats = (...values: number[]): Tensor => ({
  name: "y",
  type: "FP32",
  dims: [values.length],
  data: new Uint8Array(Float32Array.from(values).buffer),
});

test("outputs are compared by their largest value, and what one side can't say counts as infinitely far", () => {
  expect(relativeDifference([floats(1000, 0)], [floats(1000, 0.5)])).toBeCloseTo(5e-4);
  expect(relativeDifference([floats(1, NaN, Infinity)], [floats(1, NaN, Infinity)])).toBe(0);
  expect(relativeDifference([floats(1, 2)], [floats(1, NaN)])).toBe(Infinity);
  expect(relativeDifference([floats(Infinity)], [floats(3)])).toBe(Infinity);
  expect(relativeDifference([floats(1)], [{ ...floats(1), dims: [1, 1] }])).toBe(Infinity);
  expect(relativeDifference([floats(1)], [])).toBe(Infinity);
  expect(relativeDifference([floats(0)], [floats(1e-9)])).toBeLessThan(1e-2);
});

test("numbers survive every element type", () => {
  const numbers: Record<DataType, number[]> = {
    ...(Object.fromEntries(Object.keys(DATA_TYPES).map((type) => [type, [0, 1, 100]])) as Record<DataType, number[]>),
    BOOL: [0, 1],
    INT64: [-5, 2 ** 40],
    FP16: [0, -1.5, 0.25, 65_504, 2 ** -24, Infinity],
    FP64: [0.1, -1e300],
  };
  for (const [type, values] of Object.entries(numbers) as [DataType, number[]][]) {
    const tensor: Tensor = { name: "t", type, dims: [values.length], data: bytesFrom(type, values) };
    expect([type, Array.from(valuesOf(tensor), Number)]).toEqual([type, values]);
    const back = fromOrt("t", toOrt(tensor));
    expect([type, back]).toEqual([type, tensor]);
    expect(back.data.buffer).toBe(tensor.data.buffer); // nothing was copied on the way
  }
});

test("a provider that doesn't work is explained without the library's own source lines", () => {
  const text = providerProblem("webgpu", "/src/a.cc:136 f()::<lambda()> status was false. No supported adapters");
  expect(text).toContain("doesn't work here (No supported adapters): it needs a Vulkan driver");
  expect(PROVIDERS.every(isProvider)).toBe(true);
  expect(isProvider("tpu")).toBe(false);
});
