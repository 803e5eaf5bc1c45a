import { expect, test } from "vitest";
import { inputsToWire, tensor, tensorValue, toWire } from "./tensors.ts";

test("nesting is the shape, and values choose the type", () => {
  expect(
    tensor([
      [1, 2, 3],
      [4, 5, 6],
    ]),
  ).toMatchObject({ type: "FP32", dims: [2, 3] });
  expect(tensor([1n, 2n])).toEqual({ type: "INT64", dims: [2], data: BigInt64Array.of(1n, 2n) });
  expect(tensor([true, false])).toEqual({ type: "BOOL", dims: [2], data: Uint8Array.of(1, 0) });
  expect(tensor([1, 2], [1, 2], "INT64").data).toEqual(BigInt64Array.of(1n, 2n));
});

test("a typed array is borrowed, with the shape that is given", () => {
  const data = Float32Array.of(1, 2, 3, 4);
  expect(tensor(data, [2, 2])).toEqual({ type: "FP32", dims: [2, 2], data });
  expect(toWire("x", data).data.buffer).toBe(data.buffer);
  expect(tensor(Uint16Array.of(0x3c00), [1], "FP16").type).toBe("FP16");
});

test("what doesn't fit its shape or type is refused with both", () => {
  expect(() => tensor([1, 2, 3], [2, 2])).toThrow(/\[2, 2\] holds 4 values, but there are 3/);
  expect(() => tensor([[1, 2], [3]])).toThrow(/ragged/);
  expect(() => tensor([1, [2]])).toThrow(/ragged/);
  expect(() => tensor([300], [1], "UINT8")).toThrow(/300, which UINT8 can't hold/);
  expect(() => tensor([1.5], [1], "INT64")).toThrow(/no whole number/);
  expect(() => tensor(Float32Array.of(1), [1], "INT32")).toThrow(/can't hold INT32/);
  expect(() => toWire("x", { type: "FP32", dims: [2], data: Float32Array.of(1) })).toThrow(/input "x" says FP32 \[2\]/);
});

test("inputs that are no tensors are refused by name, as JavaScript without types gives them", () => {
  const given = (inputs: unknown) => () => inputsToWire(inputs as never);
  for (const wrong of ["hello", null, undefined, 5, {}, new DataView(new ArrayBuffer(4)), { data: [1] }])
    expect(given({ x: wrong })).toThrow(/^input "x" is no tensor: give a typed array/);
  for (const wrong of [undefined, null, [Float32Array.of(1)], Float32Array.of(1)])
    expect(given(wrong)).toThrow(/^inputs: give them by name/);
  expect(() => tensor([1], [1], "FLOAT" as never)).toThrow('"FLOAT" is no type of a tensor');
});

test("bytes at an odd offset are copied, so that they can be read", () => {
  const bytes = new Uint8Array(12);
  bytes.set(new Uint8Array(Float32Array.of(1.5, 2.5).buffer), 3);
  const value = tensorValue({ name: "y", type: "FP32", dims: [2], data: bytes.subarray(3, 11) });
  expect(value.data).toEqual(Float32Array.of(1.5, 2.5));
});
