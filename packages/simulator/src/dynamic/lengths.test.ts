import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type Lengths,
  drawLength,
  gammaLengths,
  lengthCdf,
  lognormalLengths,
  meanLength,
  meanLongest,
  mixtureQuantile,
  modeCentres,
  replayedLengths,
} from "./lengths.ts";
import { gammaCdf, normalCdf } from "./special-functions.ts";

/** Orloj, Table 1: mean and 99th percentile, ms. */
const TASKS: readonly (readonly [string, number, number])[] = [
  ["RDI-Nets on CIFAR", 683.15, 2667.54],
  ["SkipNet on ImageNet", 3.24, 5.56],
  ["Blenderbot on convAI", 200.39, 242.27],
  ["Blenderbot on Cornell", 203.22, 247.04],
  ["GPT on convAI", 79.47, 143.4],
  ["GPT on Cornell", 94.84, 161.69],
  ["BART on CNN", 774.66, 1101.99],
  ["T5 on CNN", 552.91, 797.28],
  ["FSMT on WMT", 189.3, 319.31],
  ["mBART on WMT", 432.38, 729.87],
];

function sample(lengths: Lengths, count = 100_000): Float64Array {
  const prng = new Prng(11);
  return Float64Array.from({ length: count }, () => drawLength(lengths, prng)).sort();
}
const meanOf = (sorted: Float64Array): number => sorted.reduce((a, b) => a + b, 0) / sorted.length;
const whole = (lengths: Lengths) => [{ share: 1, lengths }];

test.for(TASKS)(
  "%s is drawn with the mean and the 99th percentile that the paper gives, lognormal or Gamma",
  (task) => {
    const [, mean, p99] = task;
    for (const form of [lognormalLengths, gammaLengths]) {
      const lengths = form(1000 * mean, 1000 * p99)!;
      expect(meanLength(lengths) / (1000 * mean)).toBeCloseTo(1, 6);
      expect(mixtureQuantile(whole(lengths), 0.99) / (1000 * p99)).toBeCloseTo(1, 3);
      const drawn = sample(lengths);
      expect(Math.abs(meanOf(drawn) / (1000 * mean) - 1)).toBeLessThan(0.01);
      expect(Math.abs(drawn[99_000]! / (1000 * p99) - 1)).toBeLessThan(0.03);
    }
  },
);

test("there is no distribution whose 99th percentile is below its mean, or too far above it", () => {
  for (const form of [lognormalLengths, gammaLengths]) {
    expect(form(100, 90)).toBeUndefined();
    expect(form(100, 100)).toBeUndefined();
    expect(form(100, 1e6)).toBeUndefined();
  }
});

test("three modes lie evenly, have their weights, and their percentiles are those of the mixture", () => {
  expect(modeCentres(3, 50, 500)).toEqual([50, 275, 500]);
  expect(modeCentres(1, 50, 500)).toEqual([275]);
  const lengths: Lengths = { kind: "modes", centres: [50_000, 500_000], sigma: 10_000, weights: [0.75, 0.25] };
  const drawn = sample(lengths);
  expect(drawn.filter((length) => length > 275_000).length / drawn.length).toBeCloseTo(0.25, 2);
  expect(meanLength(lengths)).toBe(162_500);
  const p99 = mixtureQuantile(whole(lengths), 0.99);
  expect(Math.abs(drawn[99_000]! - p99)).toBeLessThan(2000);
  const apart = [0, 1].map((i) => ({
    share: lengths.weights[i]!,
    lengths: { ...lengths, centres: [lengths.centres[i]!], weights: [1] },
  }));
  expect(mixtureQuantile(apart, 0.99)).toBe(p99);
});

test("replayed lengths are drawn equally often and no others are; constant ones are constant", () => {
  const drawn = sample(replayedLengths([30, 10, 20, 10]), 40_000);
  expect([...new Set(drawn)]).toEqual([10, 20, 30]);
  expect(drawn.filter((length) => length === 10).length / 40_000).toBeCloseTo(0.5, 1);
  expect(lengthCdf(replayedLengths([30, 10, 20, 10]), 20)).toBe(0.75);
  expect(sample({ kind: "constant", at: 7000 }, 10).every((length) => length === 7000)).toBe(true);
  expect(mixtureQuantile(whole({ kind: "constant", at: 7000 }), 0.99)).toBe(7000);
});

test("the mean longest of k is what k draws have on average", () => {
  const lengths: Lengths = { kind: "modes", centres: [50_000, 500_000], sigma: 10_000, weights: [0.9, 0.1] };
  const longest = meanLongest(whole(lengths), 8);
  expect(longest[0]! / meanLength(lengths)).toBeCloseTo(1, 3);
  const prng = new Prng(2);
  for (const k of [2, 8]) {
    const maxima = Array.from({ length: 20_000 }, () =>
      Math.max(...Array.from({ length: k }, () => drawLength(lengths, prng))),
    );
    expect(Math.abs(meanOf(Float64Array.from(maxima)) / longest[k - 1]! - 1)).toBeLessThan(0.02);
  }
});

test("distribution functions have their tabulated values", () => {
  expect(normalCdf(0)).toBeCloseTo(0.5, 14);
  expect(normalCdf(1.959963984540054)).toBeCloseTo(0.975, 12);
  expect(normalCdf(-2.3263478740408408)).toBeCloseTo(0.01, 12);
  expect(gammaCdf(1, 2)).toBeCloseTo(1 - Math.exp(-2), 13);
  expect(gammaCdf(0.5, 0.5)).toBeCloseTo(0.6826894921370859, 12);
  expect(gammaCdf(10_000, 10_000)).toBeCloseTo(0.5013298, 5);
});
