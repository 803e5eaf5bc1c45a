import type { Tensor } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { gatherRows, groupsOf } from "./index.ts";

const marks = (...variants: number[]): Tensor => ({
  name: "tutti.variant",
  type: "UINT16",
  dims: [variants.length],
  data: new Uint8Array(Uint16Array.from(variants).buffer),
});

test("each row is in the group of its variant, and the groups are in the order of the variants", () => {
  expect(groupsOf({ inputs: [marks(300, 0, 1, 0)] })).toEqual([
    { variant: 0, rows: [1, 3] },
    { variant: 1, rows: [2] },
    { variant: 300, rows: [0] },
  ]);
  expect(groupsOf({ inputs: [] })).toEqual([]);
});

test("gathered rows are those of the batch, whichever axis the rows lie along", () => {
  const shape = fc.record({
    dims: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }),
    axis: fc.nat(2),
    picks: fc.array(fc.nat(2), { minLength: 1, maxLength: 4 }),
  });
  fc.assert(
    fc.property(shape, ({ dims, axis: anyAxis, picks }) => {
      const axis = anyAxis % dims.length;
      const rows = picks.map((pick) => pick % dims[axis]!);
      const values = Int16Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => i);
      const batch: Tensor = { name: "x", type: "INT16", dims, data: new Uint8Array(values.buffer) };
      const gathered = gatherRows(batch, axis, rows);
      const found = new Int16Array(gathered.data.buffer, gathered.data.byteOffset, gathered.data.byteLength / 2);
      const strides = dims.map((_, i) => dims.slice(i + 1).reduce((a, b) => a * b, 1));
      const expected: number[] = [];
      const walk = (at: number, place: number): void => {
        if (at === dims.length) return void expected.push(place);
        const picked = at === axis ? rows : Array.from({ length: dims[at]! }, (_, i) => i);
        for (const index of picked) walk(at + 1, place + index * strides[at]!);
      };
      walk(0, 0);
      expect([...found]).toEqual(expected);
      expect(gathered.dims[axis]).toBe(rows.length);
    }),
  );
});

test("rows that are the whole batch in its order cost no copy", () => {
  const batch: Tensor = { name: "x", type: "UINT8", dims: [2, 2], data: Uint8Array.of(1, 2, 3, 4) };
  expect(gatherRows(batch, 0, [0, 1])).toBe(batch);
});
