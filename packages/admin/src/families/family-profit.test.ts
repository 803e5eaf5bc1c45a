import type { BatchLatency } from "@tutti/planning";
import { expect, test } from "vitest";
import { familyProfit } from "./index.ts";

const SIZES = Array.from({ length: 32 }, (_, i) => i + 1);
const line = (alpha: number, beta: number): BatchLatency => ({ batchSizes: SIZES, latency: (b) => alpha * b + beta });
/** C7 with suffixes of 0.2 ms for each of `count` variants. */
const merged = (alpha: number, beta: number, count: number): BatchLatency => ({
  batchSizes: SIZES,
  latency: (b) => alpha * b + beta + 0.2 * Math.min(b, count),
});
const bytes = { separate: 100, family: 20 };

test("ten models whose batches cost mostly their start are served by fewer accelerators as a family", () => {
  const separate = Array.from({ length: 10 }, () => line(0.5, 10));
  const { pays, plans, reason } = familyProfit({
    separate,
    family: merged(0.5, 10, 10),
    slos: Array(10).fill(60),
    bytes,
  });
  expect(pays).toBe(true);
  expect(plans.every(({ separate: alone, family }) => family <= alone)).toBe(true);
  expect(plans.at(-1)!.family).toBeLessThan(plans.at(-1)!.separate);
  expect(reason).toBe("it saves 80 % of the weights and accelerators");
});

test("a family that needs more accelerators at some load doesn't pay, however much memory it saves", () => {
  const separate = [line(1, 0.1), line(1, 0.1)];
  const dear: BatchLatency = { batchSizes: SIZES, latency: (b) => 3 * b };
  const { pays, reason } = familyProfit({ separate, family: dear, slos: [50, 50], bytes });
  expect(pays).toBe(false);
  expect(reason).toMatch(/^at \d+ requests a second the family needs \d+ accelerators, its models alone \d+$/);
});

test("what saves neither memory nor accelerators doesn't pay", () => {
  const separate = [line(1, 1), line(1, 1)];
  const given = { separate, family: line(1, 1), slos: [50, 50], bytes: { separate: 10, family: 10 }, rates: [1, 1] };
  expect(familyProfit(given)).toMatchObject({ pays: false, reason: "it saves neither memory nor accelerators" });
});

test("a family that can't meet the least SLO among its models doesn't pay", () => {
  const separate = [line(1, 1), line(1, 1)];
  expect(familyProfit({ separate, family: merged(1, 5, 2), slos: [4, 100], bytes }).reason).toBe(
    "the family can't meet the least of the SLOs",
  );
});

test("known rates are what is planned for", () => {
  const separate = [line(0.5, 10), line(0.5, 10)];
  const { plans } = familyProfit({ separate, family: merged(0.5, 10, 2), slos: [60, 60], bytes, rates: [30, 10] });
  expect(plans).toEqual([{ rateRps: 40, separate: 1, family: 1 }]);
});
