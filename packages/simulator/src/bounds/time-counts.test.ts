import fc from "fast-check";
import { expect, test } from "vitest";
import { TimeCounts } from "./time-counts.ts";

test("a quantile is never low and at most 0.05 % high, whatever was noted", () => {
  const time = fc.oneof(
    fc.nat(5000),
    fc.nat(2 ** 30),
    fc.maxSafeNat().map((n) => n % 2 ** 45),
  );
  fc.assert(
    fc.property(
      fc.array(time, { minLength: 1, maxLength: 200 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (times, share) => {
        const counts = new TimeCounts();
        for (const one of times) counts.note(one);
        const exact = times.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(share * times.length - 1e-9) - 1)]!;
        const found = counts.quantile(share);
        expect(found).toBeGreaterThanOrEqual(exact);
        expect(found).toBeLessThanOrEqual(exact < 4096 ? exact : exact * (1 + 1 / 2048));
      },
    ),
  );
});

test("what never came counts as infinite, and of nothing there is no quantile", () => {
  const counts = new TimeCounts();
  for (let i = 1; i <= 98; i++) counts.note(i);
  expect(counts.quantile(0.5, 100)).toBe(50);
  expect(counts.quantile(0.98, 100)).toBe(98);
  expect(counts.quantile(0.99, 100)).toBe(Infinity);
  expect(new TimeCounts().quantile(0.5)).toBeNaN();
});
