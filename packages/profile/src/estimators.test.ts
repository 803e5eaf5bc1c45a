import { type Instant, Prng, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { ArrivalRate, DelayEstimator, SlidingHistogram } from "./index.ts";

const EPOCH = 1_790_000_000_000_000;
const at = (us: number) => (EPOCH + us) as Instant;

test("the arrival rate is what arrived in the last five seconds, or since the first arrival", () => {
  const rate = new ArrivalRate();
  expect(rate.perMicro(at(0))).toBe(0);
  for (let i = 0; i < 1000; i++) rate.note(at(i * 1000));
  expect(rate.perMicro(at(1e6))).toBeCloseTo(0.001, 9);
  for (let i = 1000; i < 20_000; i++) rate.note(at(i * 1000));
  expect(rate.perMicro(at(20e6))).toBeCloseTo(0.001, 4);
  expect(rate.perMicro(at(22.5e6))).toBeCloseTo(0.0005, 4);
  expect(rate.perMicro(at(60e6))).toBe(0);
  rate.note(at(60e6));
  expect(rate.perMicro(at(60e6 + 1000))).toBeCloseTo(1 / 5e6, 7);
});

test("two first requests that come together are no flood", () => {
  const rate = new ArrivalRate();
  rate.note(at(0));
  rate.note(at(1));
  expect(rate.perMicro(at(2))).toBeLessThan(1e-5);
});

test("a rate is known after a quarter of a second, of silence before the first arrival too where somebody listened", () => {
  const [unheard, heard] = [new ArrivalRate(), new ArrivalRate()];
  heard.begin(at(0));
  const known = (us: number): boolean[] => [unheard, heard].map((rate) => rate.isKnown(at(us)));
  expect([known(249_000), known(250_000)]).toEqual([
    [false, false],
    [false, true],
  ]);
  for (const rate of [unheard, heard]) rate.note(at(1_000_000));
  expect(known(1_000_000)).toEqual([false, true]);
  for (const rate of [unheard, heard]) rate.note(at(1_100_000));
  expect(known(1_100_000)).toEqual([false, false]); // a flood may have begun
  expect(known(1_250_000)).toEqual([true, true]);
  expect(known(60_000_000)).toEqual([true, true]);
});

test("a quantile of a sliding histogram is at most 4.5 % high and never low", () => {
  const histogram = new SlidingHistogram(seconds(10));
  const prng = new Prng(7);
  const samples = Array.from({ length: 5000 }, () => Math.ceil(prng.nextExponential(1 / 3000)));
  for (const sample of samples) histogram.note(0, sample);
  const sorted = samples.toSorted((a, b) => a - b);
  for (const quantile of [0.01, 0.5, 0.9, 0.99, 1]) {
    const exact = sorted[Math.ceil(quantile * sorted.length) - 1]!;
    expect(histogram.quantile(0, quantile)).toBeGreaterThanOrEqual(exact);
    expect(histogram.quantile(0, quantile)).toBeLessThanOrEqual(exact * 1.045 + 1);
  }
  expect(histogram.mean(0)).toBeCloseTo(samples.reduce((a, b) => a + b) / samples.length, 6);
  expect(histogram.count(seconds(30))).toBe(0);
  expect(histogram.quantile(seconds(30), 0.5)).toBe(0);
});

test("a delay is estimated by its quantile, between the floor and five medians, and forgotten with its window", () => {
  const delay = new DelayEstimator({ floor: micros(100), quantile: 0.99, window: seconds(10), capTimes: 5 });
  expect(delay.value(at(0))).toBe(100);
  for (let i = 0; i < 1000; i++) delay.note(at(i * 1000), micros(i % 50 === 0 ? 900 : 400));
  expect(delay.value(at(1e6))).toBeGreaterThanOrEqual(900);
  expect(delay.value(at(1e6))).toBeLessThan(945);
  expect(delay.capped(at(1e6))).toBe(false);
  for (let i = 0; i < 50; i++) delay.note(at(1e6 + i), millis(80)); // a bad moment
  expect(delay.value(at(1.1e6))).toBeLessThanOrEqual(5 * 418);
  expect(delay.capped(at(1.1e6))).toBe(true);
  expect(delay.value(at(40e6))).toBeLessThan(420); // nothing recent: the usual median
  expect(delay.capped(at(40e6))).toBe(false);
});

test("the dispersion of counts is 0 for even arrivals, 1 for Poisson ones, and high for bursts", () => {
  const dispersionOf = (gap: (at: number) => number, until = 5_000_000): number => {
    const rate = new ArrivalRate();
    let at = 1_000_000;
    for (const end = at + until; at < end; at += gap(at)) rate.note(Math.round(at) as Instant);
    return rate.dispersion(Math.round(at) as Instant);
  };
  const prng = new Prng(11);
  const poisson = (perSecond: number) => () => prng.nextExponential(perSecond / 1e6);
  expect(dispersionOf(() => 1_000)).toBeLessThan(0.05);
  for (const perSecond of [100, 1_000, 10_000]) {
    const dispersion = dispersionOf(poisson(perSecond));
    expect(dispersion).toBeGreaterThan(0.5);
    expect(dispersion).toBeLessThan(1.6);
  }
  let left = 0;
  expect(dispersionOf(() => (left-- > 0 ? 10 : ((left = 19), prng.nextExponential(50 / 1e6))))).toBeGreaterThan(5);
  const step = (at: number): number => prng.nextExponential((at < 3_500_000 ? 2_000 : 4_000) / 1e6);
  expect(dispersionOf(step)).toBeLessThan(1.6);
  expect(dispersionOf(poisson(1_000), 300_000)).toBeNaN();
  expect(new ArrivalRate().dispersion(5 as Instant)).toBeNaN();
});

test.each([1_000, 5_000, 50_000])("a pause in arrivals at %d/s is no burst", (perSecond) => {
  const prng = new Prng(12);
  const [start, pause, end] = [1_010_000, 3_330_000, 7_020_000];
  for (const length of [200_000, 400_000, 2_000_000]) {
    const seen = Array.from({ length: 8 }, () => {
      const rate = new ArrivalRate();
      for (let at = start; at < end; at += prng.nextExponential(perSecond / 1e6)) {
        if (at < pause || at >= pause + length) rate.note(Math.round(at) as Instant);
      }
      return rate.dispersion(end as Instant);
    });
    expect(seen.reduce((sum, one) => sum + one, 0) / seen.length).toBeLessThan(1.75);
  }
});

test.each([1, 5])(
  "a tenth of a second after a pause of %d s the rate is known, to three standard deviations",
  (pause) => {
    const prng = new Prng(14);
    const rate = new ArrivalRate();
    const [stop, start, end] = [3_000_000, 3_000_000 + pause * 1_000_000, 3_150_000 + pause * 1_000_000];
    for (let at = 0; at < end; at += prng.nextExponential(4_600 / 1e6)) {
      if (at < stop || at >= start) rate.note(Math.floor(at) as Instant);
    }
    for (const known of [rate.perMicro(end as Instant), rate.perMicroOfSlots(end as Instant)]) {
      expect(known).toBeGreaterThan(0.8 * 0.0046);
      expect(known).toBeLessThan(1.05 * 0.0046);
    }
  },
);

test("chance does not pass for a higher rate", () => {
  for (const perSecond of [4, 40, 400, 4_000]) {
    const prng = new Prng(15);
    const rate = new ArrivalRate();
    let [sum, highest, seen] = [0, 0, 0];
    for (let at = 0, next = 5_000_000; at < 60_000_000; at += prng.nextExponential(perSecond / 1e6)) {
      for (; next <= at; next += 50_000, seen++) {
        const known = rate.perMicroOfSlots(next as Instant) * 1e6;
        sum += known;
        highest = Math.max(highest, known);
      }
      rate.note(Math.floor(at) as Instant);
    }
    expect(sum / seen).toBeLessThan(1.05 * perSecond);
    expect(highest).toBeLessThan(2.2 * perSecond);
  }
});
