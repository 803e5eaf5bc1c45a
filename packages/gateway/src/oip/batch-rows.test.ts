import type { ModelSpec, Tensor } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { joinRows, maxRowsOf, splitRows } from "./batch-rows.ts";

type Sliced = Pick<ModelSpec, "name" | "inputs" | "outputs" | "batchSizeMax">;
const model: Sliced = {
  name: "m",
  batchSizeMax: 8,
  inputs: [
    { name: "a", type: "UINT8", dims: ["batch", 3] },
    { name: "b", type: "INT16", dims: ["batch", 1, 2] },
  ],
  outputs: [{ name: "a", type: "UINT8", dims: ["batch", 3] }],
};
const filled = (name: string, type: Tensor["type"], dims: number[], bytes: number): Tensor => ({
  name,
  type,
  dims,
  data: Uint8Array.from({ length: bytes }, (_, i) => i),
});

test("what is taken apart into rows and put together again is what it was", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), (rows) => {
      const inputs = [filled("a", "UINT8", [rows, 3], 3 * rows), filled("b", "INT16", [rows, 1, 2], 4 * rows)];
      const parts = splitRows(model, inputs);
      expect(parts).toHaveLength(rows);
      for (const part of parts) expect(part.map(({ dims }) => dims[0])).toEqual([1, 1]);
      expect(joinRows(parts)).toEqual(inputs);
    }),
  );
});

test("one row passes as it is, and what isn't the rows' business is left to whoever checks shapes", () => {
  const one = [filled("a", "UINT8", [3], 3)];
  expect(splitRows(model, one)[0]).toBe(one);
  expect(splitRows(model, [])).toEqual([[]]);
  const unbatched: Sliced = { ...model, inputs: [{ name: "a", type: "UINT8", dims: [2, 3] }] };
  expect(maxRowsOf(unbatched)).toBe(0);
  expect(maxRowsOf(model)).toBe(8);
  expect(splitRows(unbatched, [filled("a", "UINT8", [2, 3], 6)])).toHaveLength(1);
});

test("more rows than the model takes, none, and inputs that disagree are refused", () => {
  expect(() => splitRows(model, [filled("a", "UINT8", [9, 3], 27)])).toThrow("takes 1 to 8");
  expect(() => splitRows(model, [filled("a", "UINT8", [0, 3], 0)])).toThrow("0 rows");
  const odd = [filled("a", "UINT8", [2, 3], 6), filled("b", "INT16", [3, 1, 2], 12)];
  expect(() => splitRows(model, odd)).toThrow('"a" has 2 rows, but "b" has 3');
  const answers = [[filled("y", "UINT8", [1, 3], 3)], [filled("y", "UINT8", [1, 4], 4)]];
  expect(() => joinRows(answers)).toThrow("send them one by one");
});

test("rows of another shape or datatype are refused as the client sent them", () => {
  expect(() => splitRows(model, [filled("a", "UINT8", [3, 1], 3)])).toThrow(
    'input "a": expected UINT8[batch, 3], got UINT8[3, 1]',
  );
  const wrong = [filled("a", "UINT8", [2, 3], 6), filled("b", "INT8", [2, 1, 2], 4)];
  expect(() => splitRows(model, wrong)).toThrow('input "b": expected INT16[batch, 1, 2], got INT8[2, 1, 2]');
  const varied: Sliced = { ...model, inputs: [{ name: "a", type: "UINT8", dims: ["batch", "W"] }] };
  expect(splitRows(varied, [filled("a", "UINT8", [2, 5], 10)])).toHaveLength(2);
});
