import { type Instant, instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { BUSY_HIGH, type CountSeen, SubClusterCounter, countOfSubClusters, neededByMemory } from "./count.ts";

const seen = (more: Partial<CountSeen> = {}): CountSeen => ({
  ...{ asked: 4, busy: 0.1, byMemory: 1, estimate: { dividedRps: 500, undividedRps: 1_000 } },
  ...more,
});
const at = (s: number): Instant => instant(s * 1e6);

test.each([
  ["a costly division is refused", seen(), 1, 1, 1, "costly"],
  ["a cheap one is made", seen({ estimate: { dividedRps: 900, undividedRps: 1_000 } }), 1, 1, 4, "cheap"],
  [
    "and kept until it costs clearly more",
    seen({ estimate: { dividedRps: 860, undividedRps: 1_000 } }),
    4,
    1,
    4,
    "cheap",
  ],
  ["it is given up below", seen({ estimate: { dividedRps: 840, undividedRps: 1_000 } }), 4, 1, 1, "costly"],
  ["a demand is met whatever it costs", seen(), 1, 4, 4, "demanded"],
  ["a smaller demand is the least", seen(), 1, 2, 2, "costly"],
  ["a busy ranker needs a second", seen({ busy: 0.71 }), 1, 1, 2, "costly"],
  ["two busy rankers need a third", seen({ busy: 1.41 }), 2, 1, 3, "costly"],
  ["two rankers stay until one would be below the lower bound", seen({ busy: 0.6 }), 2, 1, 2, "costly"],
  ["then one is enough", seen({ busy: 0.49 }), 2, 1, 1, "costly"],
  ["rankers that need all get all", seen({ busy: 3 }), 2, 1, 4, "rankers"],
  ["as does memory", seen({ byMemory: 4 }), 2, 1, 4, "memory"],
  ["without requests the number stays", seen({ estimate: undefined }), 3, 1, 3, "unknown"],
  ["a ranker that reports nothing is not busy", seen({ busy: undefined }), 3, 1, 1, "costly"],
] as const)("%s", (_, given, current, least, count, because) => {
  expect(countOfSubClusters(given, current, least)).toMatchObject({ count, because });
});

test("the number changes after three windows that agree, and one that doesn't begins anew", () => {
  const counter = new SubClusterCounter(1, 1);
  const busy = seen({ busy: 0.8 });
  const heard = (s: number, given = busy): number => counter.hear(given, at(s)).count;
  expect([heard(0), counter.isDue(at(4.9)), counter.isDue(at(5)), heard(5)]).toEqual([1, false, true, 1]);
  expect(heard(10)).toBe(2);
  // Two busy rankers, then calm for two windows, and busy again: nothing changes.
  const calm = seen({ busy: 0.3 });
  expect([heard(15, calm), heard(20, calm), heard(25), heard(30, calm), heard(35, calm)]).toEqual([2, 2, 2, 2, 2]);
  expect(heard(40, calm)).toBe(1);
});

test("what memory needs and what is demanded counts at once, and never more than have a leader", () => {
  const counter = new SubClusterCounter(1, 2);
  expect(counter.hear(seen(), at(0)).count).toBe(2);
  expect(counter.usable(seen({ byMemory: 3 }))).toBe(3);
  expect(counter.usable(seen({ asked: 1 }))).toBe(1);
});

test("models are packed with what the largest run takes besides, executors with the largest memory first", () => {
  const model = (staticMemory: number, dynamicMemory = 0) => ({ staticMemory, dynamicMemory });
  expect(neededByMemory([], [4])).toBe(1);
  expect(neededByMemory([model(3), model(3)], [4, 4])).toBe(2);
  expect(neededByMemory([model(2), model(2)], [4, 4])).toBe(1);
  expect(neededByMemory([model(2, 1), model(2, 1)], [4, 4])).toBe(2);
  expect(neededByMemory([model(2, 1), model(2, 1)], [5, 4])).toBe(1);
  // More sub-clusters make no room for a model that no executor holds.
  expect(neededByMemory([model(9), model(4, 1), model(2)], [4, 4])).toBe(1);
});

test("as many rankers are used as keep each below its bound, or all", () => {
  fc.assert(
    fc.property(
      fc.record({ asked: fc.integer({ min: 1, max: 8 }), busy: fc.double({ min: 0, max: 8, noNaN: true }) }),
      fc.integer({ min: 1, max: 8 }),
      ({ asked, busy }, current) => {
        const { count } = countOfSubClusters(seen({ asked, busy }), Math.min(asked, current), 1);
        expect(count).toBeLessThanOrEqual(asked);
        if (count < asked) expect(busy / count).toBeLessThanOrEqual(BUSY_HIGH + 1e-6);
        // Nothing more than it needs, and hysteresis.
        if (count > current) expect(busy / (count - 1)).toBeGreaterThan(BUSY_HIGH - 1e-6);
      },
    ),
  );
});
