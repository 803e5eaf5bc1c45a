import { type Micros, micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type CostOffset, checkedCosts, formatCosts, parseCosts } from "./cost-steps.ts";
import { COST_MAX, COST_STEPS_MAX, SLO_US_MAX } from "../limits.ts";

const step = (after: number, cost: number): CostOffset => ({ after: after as Micros, cost });

test("costs are read in any unit of time, and a step that changes nothing is left out (COSTS-1)", () => {
  expect(parseCosts("25ms=1, 100ms=3")).toEqual([step(25_000, 1), step(100_000, 3)]);
  expect(parseCosts("800us=0.5,1s=0.5, 2s=4")).toEqual([step(800, 0.5), step(2_000_000, 4)]);
  expect(parseCosts("30=0, 60ms=1")).toEqual([step(30_000, 0), step(60_000, 1)]);
});

test("each fault has its reason", () => {
  const reasons: Record<string, string> = {
    "": '"" is no step',
    "25ms": '"25ms" is no step',
    "25ms=": '"25ms=" is no step',
    "x=1": '"x=1" is no step',
    "0ms=1": "step 1 is not after more than 0",
    "25ms=one": "step 1 costs NaN",
    "25ms=-1": "step 1 costs -1: give a number from 0",
    "25ms=Infinity": "step 1 costs Infinity",
    "25ms=0": "no step costs anything",
    "25ms=1, 25ms=2": "step 2 is after 25 ms, which is not later than 25 ms",
    "25ms=2, 50ms=1": "step 2 costs 1, less than 2",
    [`${SLO_US_MAX + 1}us=1`]: "at most 10 min",
    [`1ms=${COST_MAX + 1}`]: "COST_MAX",
    [Array.from({ length: COST_STEPS_MAX + 1 }, (_, i) => `${i + 1}ms=1`).join()]: "COST_STEPS_MAX",
  };
  for (const [text, reason] of Object.entries(reasons))
    expect([text, parseCosts(text)]).toEqual([text, expect.stringContaining(reason)]);
  expect(checkedCosts([])).toBe("there is no step");
});

test("what is written is read back", () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 1_000 }), fc.double({ min: 0.001, max: 9, noNaN: true })), {
    minLength: 1,
    maxLength: COST_STEPS_MAX,
  });
  fc.assert(
    fc.property(steps, (rises) => {
      let [after, cost] = [0, 0];
      const costs = rises.map(([longer, more]) => ({ after: micros((after += longer)), cost: (cost += more) }));
      expect(parseCosts(formatCosts(costs))).toEqual(costs);
    }),
  );
});
