import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { type Sample, grows, trendOf } from "./trend.ts";

const HOUR_S = 3_600;

/**
 * A series of one sample a second. It has a level, growth by the hour, noise, and a process that restarts small now and
 * then.
 */
function series({ perHour = 0, noise = 0, restartEveryS = Infinity }): Sample[] {
  const prng = new Prng(1);
  let [wander, bornS] = [0, 0];
  return Array.from({ length: HOUR_S }, (_, atS) => {
    if (atS - bornS > restartEveryS) bornS = atS;
    wander = 0.99 * wander + noise * (prng.nextFloat() - 0.5);
    const young = restartEveryS === Infinity ? 0 : 20 * Math.exp(-(atS - bornS) / 60);
    return { atS, value: 100 + (perHour * atS) / HOUR_S + wander - young };
  });
}

const isGrowing = (samples: readonly Sample[], allowed = 2): boolean => grows(samples, 600, allowed);

test("a leak is seen through noise that wanders, and through restarts", () => {
  expect(isGrowing(series({ perHour: 20, noise: 2 }))).toBe(true);
  expect(isGrowing(series({ perHour: 20, noise: 2, restartEveryS: 300 }))).toBe(true);
});

test("noise, restarts, and growth that is too little to matter are no leak", () => {
  expect(isGrowing(series({ noise: 2 }))).toBe(false);
  expect(isGrowing(series({ noise: 2, restartEveryS: 300 }))).toBe(false);
  expect(isGrowing(series({ perHour: 1 }))).toBe(false);
  expect(isGrowing(series({ perHour: -20 }))).toBe(false);
});

test("a heap that fills up to its limit is no leak; one that goes on growing is", () => {
  const filling = (perHour: number): Sample[] =>
    series({ perHour, noise: 0.5 }).map(({ atS, value }) => ({ atS, value: value - 40 * Math.exp(-atS / 600) }));
  const trend = trendOf(filling(0), 600)!;
  expect(trend.slope * trend.seconds).toBeGreaterThan(5); // a straight line through it rises
  expect(isGrowing(filling(0))).toBe(false);
  expect(isGrowing(filling(20))).toBe(true);
});

test("the slope of a straight line is found, with no error, and what comes before the warm-up is over does not count", () => {
  const straight = series({ perHour: 36 }).map((sample) => (sample.atS < 600 ? { ...sample, value: 0 } : sample));
  const trend = trendOf(straight, 600)!;
  expect(trend.slope).toBeCloseTo(0.01, 6);
  expect(trend.error).toBeCloseTo(0, 6);
  expect(trendOf(straight.slice(0, 30), 0)).toBeUndefined();
});
