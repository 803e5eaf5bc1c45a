import fc from "fast-check";
import { expect, test } from "vitest";
import { changesBetween, didYouMean, nearest } from "./nearest.ts";

test("letters that are swapped, left out, doubled or wrong are found; what is like nothing is left alone", () => {
  const roles = ["ingress", "batcher", "ranker", "executor"];
  expect(["exectuor", "ranke", "battcher", "ingrass", "RANKER"].map((typed) => nearest(typed, roles))).toEqual([
    "executor",
    "ranker",
    "batcher",
    "ingress",
    "ranker",
  ]);
  expect(nearest("simulator", roles)).toBe(undefined);
  expect([didYouMean("pakc", ["pack"]), didYouMean("zzz", ["pack"])]).toEqual([' (did you mean "pack"?)', ""]);
});

test("changes are a distance: none from a word to itself, as many back as forth, at most the longer word, and no way round is shorter but for swaps", () => {
  const word = fc.string({ maxLength: 8 });
  fc.assert(
    fc.property(word, word, (a, b) => {
      const changes = changesBetween(a, b);
      expect(changesBetween(a, a)).toBe(0);
      expect(changesBetween(b, a)).toBe(changes);
      expect(changes).toBeLessThanOrEqual(Math.max(a.length, b.length));
      expect(changes).toBeGreaterThanOrEqual(Math.abs(a.length - b.length));
      if (a !== b) expect(changes).toBeGreaterThan(0);
    }),
  );
});
