import fc from "fast-check";
import { expect, test } from "vitest";
import { dealByPriority, waterLevel } from "./max-min.ts";

const rate = fc.double({ min: 0, max: 1e4, noNaN: true });
const weight = fc.double({ min: 0.01, max: 100, noNaN: true });
const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(a), Math.abs(b));
const sum = (parts: readonly number[]): number => parts.reduce((a, b) => a + b, 0);

test("the water level gives out the whole capacity, or all that is asked for (A12)", () => {
  fc.assert(
    fc.property(
      rate,
      fc.array(fc.record({ demand: rate, weight }), { minLength: 1, maxLength: 20 }),
      (capacity, claims) => {
        const level = waterLevel(capacity, claims);
        const given = claims.map((one) => Math.min(one.demand, level * one.weight));
        const demand = sum(claims.map((one) => one.demand));
        expect(near(sum(given), Math.min(capacity, demand))).toBe(true);
      },
    ),
  );
});

test("nobody can be given more without taking it from one who has less for its weight (max-min)", () => {
  fc.assert(
    fc.property(
      rate,
      fc.array(fc.record({ demand: rate, weight }), { minLength: 2, maxLength: 12 }),
      (capacity, claims) => {
        const level = waterLevel(capacity, claims);
        if (level === Infinity) return;
        for (const one of claims) {
          const given = Math.min(one.demand, level * one.weight);
          // A claim that lacks something gets the level; a claim below the level lacks nothing.
          if (given < one.demand - 1e-6) expect(near(given / one.weight, level)).toBe(true);
        }
      },
    ),
  );
});

test("an application's fair share is its own whatever others ask for: at least capacity · weight / all weights", () => {
  fc.assert(
    fc.property(
      rate,
      fc.array(fc.record({ demand: rate, weight }), { minLength: 1, maxLength: 12 }),
      (capacity, claims) => {
        const level = waterLevel(capacity, claims);
        const weights = sum(claims.map((one) => one.weight));
        for (const one of claims) {
          const fair = Math.min(one.demand, (capacity * one.weight) / weights);
          expect(Math.min(one.demand, level * one.weight)).toBeGreaterThanOrEqual(fair * (1 - 1e-9) - 1e-9);
        }
      },
    ),
  );
});

test("priorities deal out exactly the share, higher ones first, and leave lower ones the floor while they ask for it", () => {
  const floors = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(rate, fc.array(rate, { minLength: 1, maxLength: 8 }), floors, (share, demands, floor) => {
      const dealt = dealByPriority(share, demands, floor);
      expect(near(sum(dealt), Math.min(share, sum(demands)))).toBe(true);
      for (const [i, part] of dealt.entries()) expect(part).toBeLessThanOrEqual(demands[i]! + 1e-9);
      const lower = sum(dealt.slice(1));
      expect(lower).toBeGreaterThanOrEqual(Math.min(share * floor, sum(demands.slice(1))) - 1e-6);
      // The highest gets everything but the floor before any other gets more than its part of the floor.
      expect(dealt[0]).toBeGreaterThanOrEqual(Math.min(demands[0]!, share * (1 - floor)) - 1e-6);
    }),
  );
});

test("worked example: 900 r/s for applications that ask for 200, 600 and 5,000 with weights 1, 2 and 1", () => {
  const claims = [
    { demand: 200, weight: 1 },
    { demand: 600, weight: 2 },
    { demand: 5_000, weight: 1 },
  ];
  // 200 is below 900/4, so it is satisfied; the other 700 are dealt 2 : 1.
  expect(waterLevel(900, claims)).toBeCloseTo(700 / 3, 9);
  // 466.7 of the second for priorities that ask for 400, 150 and 50: a tenth is for the lower ones, the rest for the
  // highest first.
  expect(dealByPriority(1_400 / 3, [400, 150, 50], 0.1).map((part) => Math.round(part * 10) / 10)).toEqual([
    400, 43.3, 23.3,
  ]);
});
