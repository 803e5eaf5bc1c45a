import fc from "fast-check";
import { expect, test } from "vitest";
import { IndexedHeap } from "./index.ts";

const KEYS = 24;
const command = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("set" as const),
      key: fc.nat(KEYS - 1),
      priority: fc.integer({ min: -4, max: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("remove" as const), key: fc.nat(KEYS - 1), priority: fc.constant(0) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("pop" as const), key: fc.constant(0), priority: fc.constant(0) }),
  },
);

test("an indexed heap always knows the least of what a sorted list holds, with ties by tie-break (HEAP-1, HEAP-2)", () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 120 }), fc.boolean(), (commands, reversed) => {
      const heap = new IndexedHeap(KEYS);
      const oracle = new Map<number, number>();
      const tie = (key: number) => (reversed ? -key : key);
      const least = () => [...oracle].sort((a, b) => a[1] - b[1] || tie(a[0]) - tie(b[0]))[0];
      for (const { do: what, key, priority } of commands) {
        if (what === "set") {
          heap.set(key, priority, tie(key));
          oracle.set(key, priority);
        } else if (what === "remove") expect(heap.remove(key)).toBe(oracle.delete(key));
        else {
          const top = least()?.[0] ?? -1;
          expect(heap.pop()).toBe(top);
          oracle.delete(top);
        }
        expect([heap.size, heap.topKey, heap.topPriority]).toEqual([
          oracle.size,
          least()?.[0] ?? -1,
          least()?.[1] ?? Infinity,
        ]);
        expect([heap.has(key), heap.priority(key)]).toEqual([oracle.has(key), oracle.get(key) ?? Infinity]);
      }
    }),
  );
});

test("popping an indexed heap empty gives every key once, in order", () => {
  const heap = new IndexedHeap(1000);
  for (let i = 0; i < 1000; i++) heap.set((i * 389) % 1000, (i * 7919) % 100);
  const seen: [number, number][] = [];
  while (heap.size > 0) {
    const priority = heap.topPriority;
    seen.push([priority, heap.pop()]);
  }
  expect(seen.map(([, key]) => key).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 1000 }, (_, i) => i));
  expect(seen).toEqual(seen.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]));
});

test("a cleared heap is empty and usable; a key beyond the bound is a broken invariant", () => {
  const heap = new IndexedHeap(4);
  heap.set(3, 1);
  heap.clear();
  expect([heap.size, heap.has(3)]).toEqual([0, false]);
  heap.set(2, 5);
  expect(heap.topKey).toBe(2);
  expect(() => heap.set(4, 0)).toThrow("key 4 of a heap of 4 keys");
});
