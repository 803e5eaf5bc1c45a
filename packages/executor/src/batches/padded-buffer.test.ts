import { type ModelSpec, type Tensor, bucketsOf } from "@tutti/protocol";
import { type FilledRow, fillRow, jsonFromBytes } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { rowOfOutput } from "./batch-buffer.ts";
import { rowBuffer } from "./padded-buffer.ts";

const axes: ModelSpec["axes"] = {
  T: { mode: "pad", sizes: [12], padValue: -1, padValues: { ids: 9 }, multiple: 4 },
};
/** A batch axis in the middle, two inputs on one axis, a mask and lengths. */
const spec = {
  name: "m",
  batchSizeMax: 8,
  inputs: [
    { name: "x", type: "FP32", dims: [2, "batch", "T"] },
    { name: "ids", type: "INT32", dims: ["batch", "T"] },
  ],
  made: [
    { name: "mask", type: "BOOL", dims: ["batch", 1, "T"], made: "mask", axis: "T" },
    { name: "lengths", type: "INT64", dims: ["batch"], made: "lengths", axis: "T" },
  ],
  outputs: [
    { name: "x", type: "FP32", dims: [2, "batch", "T"] },
    { name: "halves", type: "INT32", dims: ["batch", "H"] },
  ],
  cuts: { H: { axis: "T", divide: 2, add: 0 } },
  constants: [],
  axes,
  buckets: bucketsOf(axes),
} as unknown as ModelSpec;

const tensorOf = (name: string, type: "FP32" | "INT32", dims: number[], values: number[]): Tensor => {
  const data = new Uint8Array(type === "FP32" ? Float32Array.from(values).buffer : Int32Array.from(values).buffer);
  return { name, type, dims, data };
};
const valuesOf = ({ type, data }: Tensor): unknown[] => jsonFromBytes(type, data);

/** Row r holds 100 · r + its place, so that every number shows its row. */
function filled(row: number, length: number): FilledRow {
  const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => 100 * row + i);
  const inputs = [
    tensorOf("x", "FP32", [2, 1, length], numbers(2 * length)),
    tensorOf("ids", "INT32", [length], numbers(length)),
  ];
  return fillRow(spec, { inputs });
}

test("rows of any lengths come back from their batch as they went in, with padding, masks and lengths between", () => {
  const lengths = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(lengths, (all) => {
      const buffer = rowBuffer(spec, 0, all.length);
      all.forEach((length, row) => expect(buffer.add(filled(row, length).row)).toBe(true));
      const [{ rows, inputs, units }, ...others] = buffer.parts() as [ReturnType<typeof buffer.whole>];
      const grown = 4 * Math.ceil(Math.max(...all) / 4);
      expect([others, rows, units]).toEqual([[], all.map((_, row) => row), all]);
      const [x, ids, mask, made] = inputs as [Tensor, Tensor, Tensor, Tensor];
      expect([x.dims, ids.dims, mask.dims]).toEqual([
        [2, all.length, grown],
        [all.length, grown],
        [all.length, 1, grown],
      ]);
      expect(valuesOf(made)).toEqual(all);
      all.forEach((length, row) => {
        const behind = <V>(value: V): V[] => new Array<V>(grown - length).fill(value);
        const own = Array.from({ length }, (_, i) => 100 * row + i);
        expect(valuesOf(ids).slice(row * grown, (row + 1) * grown)).toEqual([...own, ...behind(9)]);
        const flags = [...own.map(() => true), ...behind(false)];
        expect(valuesOf(mask).slice(row * grown, (row + 1) * grown)).toEqual(flags);
        const place = { row, batchSize: all.length, lengths: buffer.lengthsOf(row) };
        const back = rowOfOutput(spec, x, place);
        expect([back.dims, valuesOf(back)]).toEqual([
          [2, 1, length],
          Array.from({ length: 2 * length }, (_, i) => 100 * row + i),
        ]);
        expect(rowOfOutput(spec, { ...ids, name: "halves" }, place).dims).toEqual([1, Math.max(1, length >> 1)]);
      });
    }),
  );
});

test("where lengths can't be mixed, rows share a run with those that grow to the same length, and each row has one place", () => {
  const apart = { ...spec, axes: { T: { ...axes["T"]!, mixed: false } } } as ModelSpec;
  const buffer = rowBuffer(apart, 0, 8);
  [3, 9, 4, 12, 5].forEach((length, row) => buffer.add(filled(row, length).row));
  const parts = buffer.parts();
  expect(parts.map(({ rows, inputs }) => [rows, inputs[1]?.dims])).toEqual([
    [
      [0, 2],
      [2, 4],
    ],
    [
      [1, 3],
      [2, 12],
    ],
    [[4], [1, 8]],
  ]);
  expect(buffer.whole().rows).toEqual([0, 1, 2, 3, 4]);
});

test("a row that is none of this model's is not taken, whatever its bytes, and its neighbours are as they were (T8)", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
      const buffer = rowBuffer(spec, 0, 2);
      const taken = buffer.add(bytes);
      expect(buffer.add(filled(1, 5).row)).toBe(true);
      expect(buffer.rows).toBe(taken ? 2 : 1);
      const { inputs } = buffer.whole();
      const ids = inputs[1]!;
      expect(valuesOf(ids).slice(-ids.dims[1]!).slice(0, 5)).toEqual([100, 101, 102, 103, 104]);
    }),
    { numRuns: 300, examples: [[filled(0, 3).row], [filled(0, 3).row.slice(0, -1)], [new Uint8Array(72).fill(255)]] },
  );
});

test("a row is copied when it comes: what it came in, a socket's buffer even, may be written over before the batch starts (T2)", () => {
  const { row } = filled(1, 5);
  const borrowed = Buffer.from(row);
  const buffer = rowBuffer(spec, 0, 1);
  expect(buffer.add(borrowed)).toBe(true);
  borrowed.fill(0xee);
  const expected = rowBuffer(spec, 0, 1);
  expected.add(row);
  expect(buffer.whole().inputs).toEqual(expected.whole().inputs);
});
