import type { Tensor } from "@tutti/protocol";
import { toHalf } from "@tutti/wire";
import { expect, test } from "vitest";
import { compareOutputs } from "./compare-outputs.ts";

const bytes = (data: ArrayBufferView): Uint8Array => new Uint8Array(data.buffer);
const fp32 = (...values: number[]): Tensor => ({
  ...{ name: "y", type: "FP32", dims: [values.length] },
  data: bytes(Float32Array.from(values)),
});
const fp64 = (...values: number[]): Tensor => ({
  ...{ name: "y", type: "FP64", dims: [values.length] },
  data: bytes(Float64Array.from(values)),
});
const fp16 = (...values: number[]): Tensor => ({
  ...{ name: "y", type: "FP16", dims: [values.length] },
  data: bytes(Uint16Array.from(values, toHalf)),
});
const int32 = (...values: number[]): Tensor => ({
  ...{ name: "y", type: "INT32", dims: [values.length] },
  data: bytes(Int32Array.from(values)),
});
const isEqual = (a: Tensor, b: Tensor, tolerance?: number): boolean => compareOutputs([a], [b], tolerance).isEqual;

test("numbers with a fraction may differ by what their type is good for, whole ones by nothing", () => {
  expect([isEqual(fp32(1), fp32(1.00009)), isEqual(fp32(1), fp32(1.0002))]).toEqual([true, false]);
  expect([isEqual(fp64(1), fp64(1 + 1e-10)), isEqual(fp64(1), fp64(1 + 1e-8))]).toEqual([true, false]);
  expect([isEqual(fp16(1), fp16(1.005)), isEqual(fp16(1), fp16(1.05))]).toEqual([true, false]);
  expect([isEqual(int32(5, 6), int32(5, 6)), isEqual(int32(5, 6), int32(5, 7))]).toEqual([true, false]);
});

test("large numbers may differ by as large a part, and a tolerance that is given counts instead", () => {
  expect([isEqual(fp32(1e6), fp32(1e6 + 50)), isEqual(fp32(1e6), fp32(1e6 + 200))]).toEqual([true, false]);
  expect([isEqual(fp32(1), fp32(1.4), 0.5), isEqual(fp32(1), fp32(1.00009), 1e-6)]).toEqual([true, false]);
});

test("the largest difference is told, also where it is within the bounds", () => {
  expect(compareOutputs([fp32(1, 2, 3)], [fp32(1, 2.5, 3.25)])).toEqual({ isEqual: false, differenceMost: 0.5 });
  expect(compareOutputs([fp64(0)], [fp64(1e-10)])).toEqual({ isEqual: true, differenceMost: 1e-10 });
});

test("what is no number is equal to its like, and to nothing else", () => {
  expect([isEqual(fp32(NaN), fp32(NaN)), isEqual(fp32(Infinity), fp32(Infinity)), isEqual(fp32(0), fp32(-0))]).toEqual([
    true,
    true,
    true,
  ]);
  expect(compareOutputs([fp32(NaN)], [fp32(1)])).toEqual({ isEqual: false, differenceMost: Infinity });
  expect(isEqual(fp32(1), fp32(Infinity))).toBe(false);
});

test("outputs that lack, or have other shapes or types, differ by more than any number", () => {
  const unlike = { isEqual: false, differenceMost: Infinity };
  expect(compareOutputs([fp32(1)], [])).toEqual(unlike);
  expect(compareOutputs([], [fp32(1)])).toEqual(unlike);
  expect(compareOutputs([fp32(1)], [fp32(1, 2)])).toEqual(unlike);
  expect(compareOutputs([fp32(1)], [{ ...fp32(1), name: "z" }])).toEqual(unlike);
  expect(compareOutputs([fp32(1)], [int32(1)])).toEqual(unlike);
});
