import { elementTypesIn } from "@tutti/ports/engine";
import { expect, test } from "vitest";
import { endsLayoutOfConvolutions, hasHalfFloats } from "./half-floats.ts";

const fp32 = { inputs: [{ name: "x", type: "FP32", dims: ["batch"] }], outputs: [] } as const;
const fp16 = { ...fp32, inputs: [{ ...fp32.inputs[0], type: "FP16" }] } as const;

/** A field of bytes, as protobuf writes it; a chain of numbers is one field within another. */
function within(fields: number | readonly number[], content: Buffer | string): Buffer {
  const bytes = Buffer.from(content as string, "latin1");
  return [fields].flat().reduceRight((inner, field) => {
    const tag = field * 8 + 2;
    const tagged = tag < 0x80 ? [tag] : [(tag & 0x7f) | 0x80, tag >> 7];
    return Buffer.concat([Buffer.from([...tagged, inner.length]), inner]);
  }, bytes);
}
const file = (...parts: readonly Buffer[]): Buffer => Buffer.concat(parts);
/** A tensor of two values: its shape and type, and what comes behind them. */
const tensor = (type: number, ...fields: readonly Buffer[]): Buffer =>
  file(Buffer.from([0x08, 0x02, 0x10, type]), ...fields);
const [FLOAT, FLOAT16, BFLOAT16] = [1, 10, 16];
const NAME = within(8, "encoder");
const RAW_DATA = within(9, "\x00\x3c\x00\x40");
const INT32_DATA = within(5, "\x80\x78\x80\x80\x01");
const WEIGHTS = [7, 5];
const node = (operator: string): Buffer => within([7, 1], within(4, operator));
const castTo = (type: number): Buffer =>
  within([7, 1, 5], file(within(1, "to"), Buffer.from([0x18, type, 0xa0, 0x01, 0x02])));

test("half floats are found as inputs, as what a Cast makes, and as weights", () => {
  expect(hasHalfFloats(fp16, file())).toBe(true);
  expect(hasHalfFloats(fp32, file())).toBe(false);
  for (const type of [FLOAT16, BFLOAT16]) {
    expect(hasHalfFloats(fp32, castTo(type))).toBe(true);
    expect(hasHalfFloats(fp32, within(WEIGHTS, tensor(type, NAME, RAW_DATA)))).toBe(true);
  }
  expect(hasHalfFloats(fp32, castTo(FLOAT))).toBe(false);
  expect(hasHalfFloats(fp32, within(WEIGHTS, tensor(FLOAT, NAME, RAW_DATA)))).toBe(false);
});

test("half-float weights are found however their values are written, and wherever they stand", () => {
  for (const type of [FLOAT16, BFLOAT16])
    for (const weights of [
      tensor(type, INT32_DATA, NAME),
      tensor(type, RAW_DATA),
      tensor(type, NAME, within(12, "of the encoder"), RAW_DATA),
      tensor(type, within(8, "Gewichte, größte"), RAW_DATA),
    ])
      for (const place of [
        WEIGHTS,
        [7, 1, 5, 5], // an attribute, as a Constant has
        [7, 1, 5, 6, 5], // a branch or a loop's body
        [7, 1, 5, 6, 1, 5, 5], // a Constant there
        [7, 15, 1], // a sparse weight's values
        [25, 7, 5, 5], // a Constant of a function
      ])
        expect([place, hasHalfFloats(fp32, within(place, weights))]).toEqual([place, true]);
});

test("weights of other types that contain the bytes of half-float weights are none", () => {
  const bytes = within(9, tensor(FLOAT16, NAME, RAW_DATA));
  expect(hasHalfFloats(fp32, within(WEIGHTS, tensor(FLOAT, NAME, bytes)))).toBe(false);
});

test("a file with a type of its own for each tensor takes no room for them (T7)", () => {
  const own = [0, 1, 2, 3].map((i) => within(WEIGHTS, file(Buffer.from([0x10, 0x80 | i, 0x02]), NAME)));
  expect([...elementTypesIn(file(...own, within(WEIGHTS, tensor(FLOAT16, NAME))))]).toEqual([FLOAT16]);
});

test("only half-float weights, a transposition and a product together end the layout of convolutions", () => {
  const all = [within(WEIGHTS, tensor(FLOAT16, INT32_DATA, NAME)), node("Transpose"), node("MatMul")];
  expect(endsLayoutOfConvolutions(file(...all))).toBe(true);
  for (const left of all) expect(endsLayoutOfConvolutions(file(...all.filter((part) => part !== left)))).toBe(false);
});
