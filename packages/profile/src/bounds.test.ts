import { micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { LatencyTable, perSecond, scalingAdvice, staggeredBatch, targetBatch, uncoordinatedBatch } from "./index.ts";

const resnet = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
const inception = LatencyTable.affine({ alpha: 5090, beta: 18_368, batchSizeMax: 64 });
const none = { ctrl: micros(0), perItem: micros(0), respond: micros(0) };

test("worked example A10.7: uncoordinated and staggered bounds of the two models of the paper's table 2", () => {
  const rounded = (c: { batchSize: number; perMicro: number }) => [
    c.batchSize,
    Math.round(perSecond(c.perMicro) * 10) / 10,
  ];
  const first = { profile: resnet, slo: millis(25), executors: 8 };
  expect(rounded(uncoordinatedBatch(first))).toEqual([7, 4500.5]);
  expect(rounded(staggeredBatch(first))).toEqual([16, 5839.4]);
  const second = { profile: inception, slo: millis(70), executors: 8 };
  expect(rounded(uncoordinatedBatch(second))).toEqual([3, 713.5]);
  expect(rounded(staggeredBatch(second))).toEqual([8, 1083.1]);
});

test("worked example A10.7: the target batch at 5,000 r/s is 15, and 5,000 and 15,000 r/s need 7 and 21 executors", () => {
  expect(targetBatch({ profile: resnet, slo: millis(25), rate: 0.005, ...none })).toBe(15);
  const of = (executors: number) => staggeredBatch({ profile: resnet, slo: millis(25), executors });
  expect([of(7).batchSize, of(21).batchSize]).toEqual([15, 17]);
  expect([6, 7].map((executors) => of(executors).perMicro >= 0.005)).toEqual([false, true]);
  expect([20, 21].map((executors) => of(executors).perMicro >= 0.015)).toEqual([false, true]);
});

test("worked example A10.1: three staggered executors of l(b)=b+5 carry batches of 4 under an SLO of 12", () => {
  const profile = LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 16 });
  const { batchSize, perMicro } = staggeredBatch({ profile, slo: millis(12), executors: 3 });
  expect(batchSize).toBe(4);
  expect(1 / perMicro).toBeCloseTo(750, 6);
});

test("a target batch is at least one, shrinks with the delays, and needs no second executor at a low rate", () => {
  const at = (rate: number, more: Partial<typeof none> = {}) =>
    targetBatch({ profile: resnet, slo: millis(25), rate, ...none, ...more });
  expect(at(0)).toBe(1);
  expect(targetBatch({ profile: resnet, slo: millis(3), rate: 1, ...none })).toBe(1);
  expect(at(1e-4)).toBe(1); // 100 r/s: l(2)+2/λ = 27.2 ms is too long
  expect(at(4e-4)).toBe(5); // 400 r/s: l(5)+5/λ = 22.8 ms, one more takes 26.4
  expect(at(1)).toBe(18);
  expect(at(1, { ctrl: millis(2) })).toBeLessThan(18);
  expect(at(1, { perItem: micros(500) })).toBeLessThan(18);
  expect(at(1, { respond: millis(4) })).toBeLessThan(18);
});

test("where throughput falls with the batch size, the size of largest throughput wins over the largest", () => {
  const points = [10, 11, 40, 41].map((ms, i) => ({ batchSize: i + 1, latency: millis(ms) }));
  expect(staggeredBatch({ profile: LatencyTable.fromPoints(points), slo: millis(100), executors: 1 }).batchSize).toBe(
    2,
  );
});

test("an SLO that is shorter than a run of one can't be met by any number of executors", () => {
  expect(staggeredBatch({ profile: resnet, slo: millis(5), executors: 100 })).toEqual({ batchSize: 0, perMicro: 0 });
});

test("scaling advice asks for what is missing, offers what is idle, never both, never the last (A8)", () => {
  const window = { executors: 8, bad: 0, total: 1000, idleShare: 0 };
  expect(scalingAdvice(window)).toEqual({ kind: "keep" });
  expect(scalingAdvice({ ...window, bad: 200, idleShare: 0.3 })).toEqual({ kind: "add", executors: 2 });
  expect(scalingAdvice({ ...window, bad: 1000 })).toEqual({ kind: "add", executors: 8 });
  expect(scalingAdvice({ ...window, idleShare: 0.47 })).toEqual({ kind: "release", executors: 3 });
  expect(scalingAdvice({ ...window, executors: 1, idleShare: 1 })).toEqual({ kind: "keep" });
  expect(scalingAdvice({ ...window, total: 0, idleShare: 1 })).toEqual({ kind: "release", executors: 7 });
});
