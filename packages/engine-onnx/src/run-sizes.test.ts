import type { Tensor } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { cutBack, filledUp, runSizeOf, runSizesOf } from "./run-sizes.ts";

test("each size up to 8 runs as it is, then four sizes an octave", () => {
  expect(runSizesOf(40)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]);
  expect(runSizesOf(11)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
  expect([9, 16, 17, 33].map((size) => runSizeOf(size, 64))).toEqual([10, 16, 20, 40]);
});

test("a batch runs in the least of the sizes that holds it, with at most a quarter more rows", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 0, max: 300 }), (batchSize, more) => {
      const most = batchSize + more;
      const rows = runSizeOf(batchSize, most);
      expect(rows).toBe(runSizesOf(most).find((size) => size >= batchSize));
      expect(rows).toBeLessThanOrEqual(1.25 * batchSize);
    }),
  );
});

test("rows that fill a tensor up are copies of its last one, and are cut off its output, along any axis", () => {
  const states: Tensor = { name: "s", type: "UINT8", dims: [2, 3, 1], data: Uint8Array.of(1, 2, 3, 11, 12, 13) };
  const filled = filledUp(states, 1, 5);
  expect([filled.dims, [...filled.data]]).toEqual([
    [2, 5, 1],
    [1, 2, 3, 3, 3, 11, 12, 13, 13, 13],
  ]);
  expect(cutBack(filled, 1, { rows: 5, batchSize: 3 })).toEqual(states);
  expect(filledUp(states, -1, 5)).toBe(states);
  expect(filledUp(states, 1, 3)).toBe(states);
  // Not the rows of the run: left for the check that finds it wrong.
  expect(cutBack(states, 1, { rows: 5, batchSize: 2 })).toBe(states);
});
