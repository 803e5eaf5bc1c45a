import {
  type ModelSpec,
  type Tensor,
  bucketsOf,
  readLengths,
  rowLayout,
  variantInput,
  variantView,
} from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { bytesFromJson, fillRow, jsonFromBytes } from "./index.ts";

const spec = (over: Partial<ModelSpec>): ModelSpec => {
  const axes = over.axes ?? {};
  return {
    name: "m",
    number: 1,
    version: "1",
    engine: "onnx",
    slo: 50_000 as Micros,
    batchSizeMax: 8,
    patience: 1,
    inputs: [{ name: "x", type: "FP32", dims: ["batch", 3] }],
    outputs: [],
    constants: [],
    axes,
    buckets: bucketsOf(axes),
    ...over,
  };
};
const tensor = (name: string, dims: number[], values: number[], type: Tensor["type"] = "FP32"): Tensor => ({
  name,
  type,
  dims,
  data: bytesFromJson(name, type, dims, values),
});
const refusal = (model: ModelSpec, ...inputs: Tensor[]): string => {
  try {
    fillRow(model, { inputs });
  } catch (error) {
    expect((error as { code: string }).code).toBe("TUTTI_INVALID_INPUT");
    return (error as Error).message;
  }
  return "accepted";
};

test("a row holds the inputs in the spec's order at multiples of 8, whatever order they came in", () => {
  const model = spec({
    inputs: [
      { name: "a", type: "INT8", dims: ["batch", 3] },
      { name: "b", type: "FP32", dims: [2, "batch"] },
    ],
  });
  const { bucket, row } = fillRow(model, {
    inputs: [tensor("b", [2, 1], [1.5, -2]), tensor("a", [3], [1, 2, 3], "INT8")],
  });
  expect([bucket, row.byteLength]).toEqual([0, rowLayout(model, 0).byteLength]);
  expect([...row.subarray(0, 8)]).toEqual([1, 2, 3, 0, 0, 0, 0, 0]);
  expect(jsonFromBytes("FP32", row.subarray(8))).toEqual([1.5, -2]);
});

test("the row is a copy: the payload that it came from may be reused", () => {
  const x = tensor("x", [1, 3], [1, 2, 3]);
  const { row } = fillRow(spec({}), { inputs: [x] });
  x.data.fill(0);
  expect(jsonFromBytes("FP32", row.subarray(0, 12))).toEqual([1, 2, 3]);
});

test("a refusal names the tensor, what was expected, and what came", () => {
  const model = spec({ constants: [{ name: "sr", type: "INT64", dims: [], values: [16_000] }] });
  const x = tensor("x", [1, 3], [1, 2, 3]);
  expect(refusal(model)).toBe('input "x" is missing; m takes "x" FP32[1, 3]');
  expect(refusal(model, x, tensor("y", [1], [1]))).toBe('m has no input "y"; it takes "x" FP32[1, 3]');
  expect(refusal(model, x, tensor("sr", [1], [1], "INT64"))).toBe('input "sr" is a constant of m and is not sent');
  expect(refusal(model, x, x)).toBe('input "x" is there twice');
  expect(refusal(model, tensor("x", [1, 3], [1, 2, 3], "INT8"))).toBe('input "x": expected FP32[1, 3], got INT8[1, 3]');
  expect(refusal(model, tensor("x", [1, 4], [1, 2, 3, 4]))).toBe('input "x": expected FP32[1, 3], got FP32[1, 4]');
  expect(refusal(model, tensor("x", [2, 3], [1, 2, 3, 4, 5, 6]))).toMatch("the batch axis is 1 or left out");
  expect(refusal(model, tensor("x", [], [1]))).toBe('input "x": expected FP32[1, 3], got FP32[]');
});

const images = spec({
  name: "ocr",
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 2, "H", "W"] }],
  axes: {
    H: { mode: "bucket", sizes: [2, 4], padValue: -1 },
    W: { mode: "bucket", sizes: [3, 6, 9], padValue: -1 },
  },
});

test("inputs go to the least bucket that holds them, and the places around them hold the padding", () => {
  const area = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 9 }), fc.boolean());
  fc.assert(
    fc.property(area, ([height, width, withBatch]) => {
      const values = Array.from({ length: 2 * height * width }, (_, i) => i + 1);
      const dims = [...(withBatch ? [1] : []), 2, height, width];
      const { bucket, row } = fillRow(images, { inputs: [tensor("x", dims, values)] });
      const { H, W } = images.buckets[bucket] as { H: number; W: number };
      const fitting = images.buckets.filter((b) => b["H"]! >= height && b["W"]! >= width);
      expect(H * W).toBe(Math.min(...fitting.map((b) => b["H"]! * b["W"]!)));
      const at = (c: number, y: number, x: number): number =>
        y < height && x < width ? values[(c * height + y) * width + x]! : -1;
      const expected: number[] = [];
      for (let c = 0; c < 2; c++) for (let y = 0; y < H; y++) for (let x = 0; x < W; x++) expected.push(at(c, y, x));
      expect(jsonFromBytes("FP32", row.subarray(0, 8 * H * W))).toEqual(expected);
    }),
  );
});

test("what fits no bucket names the buckets", () => {
  const wide = tensor("x", [1, 2, 2, 10], new Array<number>(40).fill(0));
  expect(refusal(images, wide)).toBe(
    "H=2, W=10 fits none of the buckets of ocr: H=2,W=3; H=2,W=6; H=4,W=3; H=2,W=9; H=4,W=6; H=4,W=9",
  );
  expect(refusal(images, tensor("x", [1, 2, 0, 3], []))).toMatch("H is at least 1");
});

test("an axis that several inputs share has one size", () => {
  const model = spec({
    inputs: [
      { name: "ids", type: "INT32", dims: ["batch", "T"] },
      { name: "mask", type: "BOOL", dims: ["batch", "T"] },
    ],
    axes: { T: { mode: "bucket", sizes: [4], padValue: 0, mixed: true } },
  });
  const ids = tensor("ids", [2], [7, 8], "INT32");
  const { row } = fillRow(model, { inputs: [ids, tensor("mask", [1, 2], [1, 1], "BOOL")] });
  expect([...row]).toEqual([7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
  expect(refusal(model, ids, tensor("mask", [3], [1, 1, 1], "BOOL"))).toBe(
    'input "mask": expected BOOL[1, T], got BOOL[3]: T is 2 in another input',
  );
});

test("a lone size is taken exactly, so that nothing is padded which nobody has judged", () => {
  const model = spec({
    inputs: [{ name: "x", type: "INT8", dims: ["batch", "T"] }],
    axes: { T: { mode: "bucket", sizes: [4], padValue: 0 } },
  });
  expect([...fillRow(model, { inputs: [tensor("x", [4], [1, 2, 3, 4], "INT8")] }).row].slice(0, 4)).toEqual([
    1, 2, 3, 4,
  ]);
  for (const length of [3, 5])
    expect(refusal(model, tensor("x", [length], new Array(length).fill(1), "INT8"))).toMatch(
      `T=${length}: m takes 4 alone, which \`mixed: true\` would pad to`,
    );
});

test("an axis that is padded within the batch keeps its length, which the row begins with, up to the longest", () => {
  const model = spec({
    inputs: [
      { name: "x", type: "INT8", dims: ["batch", "T"] },
      { name: "y", type: "INT8", dims: ["batch", 2, "T"] },
    ],
    axes: { T: { mode: "pad", sizes: [4], padValue: 9 } },
  });
  expect(model.buckets).toEqual([{}]);
  const inputs = [tensor("x", [3], [1, 2, 3], "INT8"), tensor("y", [2, 3], [1, 2, 3, 4, 5, 6], "INT8")];
  const { bucket, units, row } = fillRow(model, { inputs });
  expect([bucket, units]).toEqual([0, 3]);
  expect([...row]).toEqual([3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0]);
  expect(readLengths(model, row)).toEqual([3]);
  const long = tensor("x", [5], [1, 2, 3, 4, 5], "INT8");
  expect(refusal(model, long, tensor("y", [2, 5], new Array<number>(10).fill(1), "INT8"))).toBe(
    "T=5: m takes at most 4",
  );
});

test("one axis may be bucketed and another padded within the batch, and the size hint is of the latter alone", () => {
  const model = spec({
    inputs: [{ name: "x", type: "INT8", dims: ["batch", "H", "W"] }],
    axes: { H: { mode: "bucket", sizes: [2, 4], padValue: 7 }, W: { mode: "pad", sizes: [9], padValue: 0 } },
  });
  const { bucket, units, row } = fillRow(model, { inputs: [tensor("x", [3, 2], [1, 2, 3, 4, 5, 6], "INT8")] });
  expect([bucket, units]).toEqual([1, 2]);
  expect([...row]).toEqual([2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7]);
});

test("an axis may be called as something that every object inherits", () => {
  const model = spec({
    inputs: [{ name: "x", type: "INT8", dims: ["batch", "constructor"] }],
    axes: { constructor: { mode: "bucket", sizes: [2, 4], padValue: 0 } } as unknown as ModelSpec["axes"],
  });
  expect(fillRow(model, { inputs: [tensor("x", [3], [1, 2, 3], "INT8")] }).bucket).toBe(1);
});

test("what is no row of a model with padded axes has no lengths: too short, none, or longer than is taken (T8)", () => {
  const axes: ModelSpec["axes"] = { T: { mode: "pad", sizes: [300], padValue: 0 } };
  expect(readLengths({ axes }, Uint8Array.of(1, 0, 0, 0, 0, 0, 0))).toBeUndefined();
  expect(readLengths({ axes }, Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0))).toBeUndefined();
  expect(readLengths({ axes }, Uint8Array.of(44, 1, 0, 0, 0, 0, 0, 0))).toEqual([300]);
  expect(readLengths({ axes }, Uint8Array.of(45, 1, 0, 0, 0, 0, 0, 0))).toBeUndefined();
});

test("the row of a variant ends with its index, which nobody sends", () => {
  const family = spec({
    inputs: [{ name: "x", type: "INT8", dims: ["batch", 3] }, variantInput()],
    family: {
      pace: { prefix: { alphaMs: 1, betaMs: 1 }, suffix: { alphaMs: 0, betaMs: 1 } },
      variants: ["a", "b"].map((name) => ({ name, version: "1", slo: 50_000 as Micros, outputs: [] })),
    },
  });
  const { row } = fillRow(variantView(family, 1), { inputs: [tensor("x", [3], [7, 8, 9], "INT8")] });
  expect([...row]).toEqual([7, 8, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
  expect(row.byteLength).toBe(rowLayout(family, 0).byteLength);
});

test("a tensor that is the whole row and was given away is not copied; one that is borrowed, or not all of it, is", () => {
  const x = tensor("x", [3], [1, 2, 3]);
  expect(rowLayout(spec({}), 0).byteLength).toBe(16); // 12 bytes and padding
  const whole = spec({ inputs: [{ name: "x", type: "FP32", dims: ["batch", 4] }] });
  const y = tensor("x", [4], [1, 2, 3, 4]);
  expect(fillRow(whole, { inputs: [y] }, true).row).toBe(y.data);
  // A view of a much larger message would keep that message.
  const { data } = y;
  const large = new Uint8Array(3 * data.byteLength);
  large.set(data);
  const kept = fillRow(whole, { inputs: [{ ...y, data: large.subarray(0, data.byteLength) }] }, true).row;
  expect(kept.buffer.byteLength).toBe(data.byteLength);
  expect(kept).toEqual(data);
  expect(fillRow(whole, { inputs: [y] }).row).not.toBe(y.data);
  expect(fillRow(spec({}), { inputs: [x] }, true)).toEqual(fillRow(spec({}), { inputs: [x] }));
});
