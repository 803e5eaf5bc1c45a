import fc from "fast-check";
import { expect, test } from "vitest";
import { formatBytes, parseBytes } from "./bytes.ts";

test("sizes are written in powers of a thousand, with three digits at most", () => {
  expect([0, 999, 1_000, 1_500_000, 999_999, 4e9, 2_345_678_901_234_567].map(formatBytes)).toEqual([
    ...["0 B", "999 B", "1 kB", "1.5 MB", "1 MB", "4 GB"],
    "2350 TB",
  ]);
});

test("sizes are read with their unit, decimal or binary, or as bytes; anything else is none", () => {
  expect(["4GB", "1.5 gb", "2GiB", "512", "0"].map(parseBytes)).toEqual([4e9, 1.5e9, 2 ** 31, 512, 0]);
  for (const text of ["", "GB", "-1GB", "1 XB", "1e9", "4 G B", "99999999TB", "NaN"])
    expect(parseBytes(text), text).toBeUndefined();
});

test("what is written is read as what it was, but for what three digits leave out", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10 ** 14 }), (bytes) => {
      expect(Math.abs(parseBytes(formatBytes(bytes))! / bytes - 1)).toBeLessThan(0.006);
    }),
  );
});
