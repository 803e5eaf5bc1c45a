import fc from "fast-check";
import { expect, test } from "vitest";
import { MinTree } from "./index.ts";

const value = fc.oneof(fc.integer({ min: -5, max: 5 }), fc.constantFrom(Infinity, -Infinity));

test("a min-tree answers like a scan over all ids (TREE-1)", () => {
  const run = fc.array(fc.record({ at: fc.nat(), value, bound: value }), { maxLength: 80 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), run, (capacity, steps) => {
      const tree = new MinTree(capacity);
      const oracle = new Array<number>(capacity).fill(Infinity);
      for (const { at, value, bound } of steps) {
        tree.set(at % capacity, value);
        oracle[at % capacity] = value;
        const least = Math.min(...oracle);
        expect(tree.min).toBe(least);
        expect(tree.get(at % capacity)).toBe(value);
        expect(tree.firstMin()).toBe(least === Infinity ? -1 : oracle.indexOf(least));
        expect(tree.firstAtMost(bound)).toBe(oracle.findIndex((v) => v <= bound && v !== Infinity));
      }
    }),
  );
});

test("an id outside a min-tree is a broken invariant", () => {
  expect(() => new MinTree(3).set(3, 0)).toThrow("id 3 of a tree of 3");
});
