import { expect, test } from "vitest";
import type { ModelSpec } from "@tutti/protocol";
import { micros, millis } from "@tutti/units";
import { batchSizesOf, pointsOf, refusalOf } from "./profile-plan.ts";

test("sizes are powers of two up to the maximum batch, which is measured itself", () => {
  expect(batchSizesOf(1)).toEqual([1]);
  expect(batchSizesOf(8)).toEqual([1, 2, 4, 8]);
  expect(batchSizesOf(12)).toEqual([1, 2, 4, 8, 12]);
});

test("the planning profile is the typical run, whatever one that was descheduled took; the accounting one the mean", () => {
  const sizes = [{ batchSize: 1, runs: [100, 260, 110, 100, 38_000] }];
  expect(pointsOf(sizes, "median")).toEqual([{ batchSize: 1, latency: 110 }]);
  expect(pointsOf(sizes, "mean")).toEqual([{ batchSize: 1, latency: 7_714 }]);
});

test("an SLO that even one request alone can't meet is refused, and the reason names one that would do", () => {
  const spec = { slo: millis(5), buckets: [{ W: 80 }, { W: 160 }] } as unknown as ModelSpec;
  const fast = [{ batchSize: 1, latency: micros(2_000) }];
  const slow = [{ batchSize: 1, latency: micros(4_500) }];
  expect(refusalOf(spec, [fast, fast], millis(1))).toBe("");
  expect(refusalOf(spec, [fast, slow], millis(1))).toMatch(/4\.5 ms in bucket .*160.*at least 5\.5 ms/);
  const text = refusalOf({ ...spec, buckets: [{}] }, [slow], millis(1));
  expect(text).toMatch(/takes 4\.5 ms and 1 ms on the way, .* with an SLO of at least 5\.5 ms$/);
});
