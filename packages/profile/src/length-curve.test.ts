import fc from "fast-check";
import { expect, test } from "vitest";
import { LengthCurve } from "./index.ts";

test("before anything has run nothing is known, after one run times are in proportion to lengths", () => {
  const curve = new LengthCurve();
  expect(curve.at(10)).toBeUndefined();
  curve.note(100, 40_000);
  expect(curve.at(100)).toBe(40_000);
  expect(curve.at(25)).toBe(10_000);
  expect(curve.at(200)).toBe(80_000);
});

test("between lengths that have run times lie along the line between these", () => {
  const curve = new LengthCurve();
  curve.note(10, 5_000);
  curve.note(100, 14_000);
  expect(curve.at(55)).toBeCloseTo(9_500);
  expect(curve.at(5)).toBeCloseTo(2_500);
  expect(curve.at(110)).toBeCloseTo(15_400);
});

test("what a model takes now is known after twenty runs, whatever it took before", () => {
  const curve = new LengthCurve();
  curve.note(64, 1_000);
  for (let i = 0; i < 20; i++) curve.note(64, 9_000);
  expect(curve.at(64)).toBeGreaterThan(8_900);
});

test("a longer request never takes less than a shorter one, however times were noted, and what is kept is bounded", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.double({ min: 1e-3, max: 1e9, noNaN: true }), fc.integer({ min: 1, max: 1e7 })), {
        minLength: 1,
        maxLength: 200,
      }),
      fc.array(fc.double({ min: 1e-3, max: 1e9, noNaN: true }), { minLength: 2, maxLength: 20 }),
      (noted, asked) => {
        const curve = new LengthCurve();
        for (const [units, alone] of noted) curve.note(units, alone);
        const times = asked.sort((a, b) => a - b).map((units) => curve.at(units)!);
        for (const [i, time] of times.entries()) {
          expect(time).toBeGreaterThan(0);
          if (i > 0) expect(time).toBeGreaterThanOrEqual(times[i - 1]! * (1 - 1e-9));
        }
        expect(curve.size).toBeLessThanOrEqual(64);
      },
    ),
  );
});
