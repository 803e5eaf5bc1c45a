import { expect, test } from "vitest";
import {
  Prng,
  after,
  assert,
  between,
  bucketOf,
  formatDuration,
  instant,
  micros,
  millis,
  modelNumberOf,
  parseDuration,
  threadId,
} from "./index.ts";

test("a duration is whole microseconds and never negative", () => {
  expect(() => micros(-1)).toThrow("no length of time");
  expect(() => micros(0.5)).toThrow("no length of time");
  expect(millis(1.0001)).toBe(1001);
  expect(millis(2)).toBe(2000);
});

test("durations are read with their unit, and a bare number is milliseconds", () => {
  expect(["25ms", "1.5s", "800us", "800µs", "40", "2m", "1.5h"].map(parseDuration)).toEqual([
    25_000, 1_500_000, 800, 800, 40_000, 120_000_000, 5_400_000_000,
  ]);
  expect(["", "-3ms", "5 hours", "NaN", "1e9ms"].map(parseDuration)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect(formatDuration(micros(1500))).toBe("1.5 ms");
});

test("moments and durations add up", () => {
  const start = instant(1_000);
  expect(after(start, micros(5))).toBe(1_005);
  expect(between(after(start, micros(5)), start)).toBe(0);
});

test("a thread id names its model and its bucket", () => {
  const thread = threadId(7, 3);
  expect([modelNumberOf(thread), bucketOf(thread)]).toEqual([7, 3]);
  expect(() => threadId(7, 64)).toThrow("no bucket");
});

test("equal seeds draw equal numbers, unequal seeds differ, and gaps have the mean asked for", () => {
  const draw = (seed: number) =>
    Array.from(
      { length: 5 },
      (
        (g) => () =>
          g.nextUint32()
      )(new Prng(seed)),
    );
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
  const prng = new Prng(3);
  let sum = 0;
  for (let i = 0; i < 100_000; i++) sum += prng.nextExponential(0.5);
  expect(sum / 100_000).toBeCloseTo(2, 1);
});

test("a broken invariant throws", () => {
  expect(() => assert(false, "broken")).toThrow("broken");
});
