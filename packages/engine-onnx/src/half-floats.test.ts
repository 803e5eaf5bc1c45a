import { expect, test } from "vitest";
import { endsLayoutOfConvolutions, hasHalfFloats } from "./half-floats.ts";

const fp32 = { inputs: [{ name: "x", type: "FP32", dims: ["batch"] }], outputs: [] } as const;
const fp16 = { ...fp32, inputs: [{ ...fp32.inputs[0], type: "FP16" }] } as const;
const file = (...parts: string[]): Buffer => Buffer.from(`weights ${parts.join(" and ")} weights`, "latin1");
const WEIGHTS = "\x10\x0a\x42\x07encoder\x4a\x80";
const [TRANSPOSE, PRODUCT] = ["\x22\x09Transpose", "\x22\x06MatMul"];

test("half floats are found as inputs, as what a Cast makes, and as weights", () => {
  expect(hasHalfFloats(fp16, file())).toBe(true);
  expect(hasHalfFloats(fp32, file())).toBe(false);
  for (const part of ["\x0a\x02to\x18\x0a", "\x0a\x02to\x18\x10", WEIGHTS, "\x10\x10\x42\x01w\x4a"])
    expect(hasHalfFloats(fp32, file(part))).toBe(true);
});

test("bytes that begin like half-float weights and go on without a name are others' weights", () => {
  const chance = ["\x10\x0a\x42\x07enc\xffder\x4a", "\x10\x0a\x42\x03encoder\x4a", "\x10\x0a\x42"];
  expect(hasHalfFloats(fp32, file(...chance))).toBe(false);
  expect(hasHalfFloats(fp32, file(...chance, WEIGHTS))).toBe(true);
});

test("only half-float weights, a transposition and a product together end the layout of convolutions", () => {
  const all = [WEIGHTS, TRANSPOSE, PRODUCT];
  expect(endsLayoutOfConvolutions(file(...all))).toBe(true);
  for (const left of all) expect(endsLayoutOfConvolutions(file(...all.filter((part) => part !== left)))).toBe(false);
});
