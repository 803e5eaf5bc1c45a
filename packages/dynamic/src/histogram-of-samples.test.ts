import { expect, test } from "vitest";
import { Prng } from "@tutti/units";
import { cdfOn, halved, histogramOf, meanOf, quantileOf } from "./index.ts";

const meanOfAll = (samples: readonly number[]): number => samples.reduce((sum, one) => sum + one, 0) / samples.length;

test("two modes that are one value each keep their masses and their mean", () => {
  const histogram = histogramOf([...Array(50).fill(10_000), ...Array(50).fill(50_000)]);
  expect([...histogram.masses]).toEqual([0.5, 0, 0.5]);
  expect(meanOf(histogram)).toBeLessThan(30_200);
  expect(histogramOf([20_000]).edges).toEqual(Float64Array.of(20_000, 20_100));
});

test("nothing lies where no sample does, between modes of any shape", () => {
  const prng = new Prng(5);
  const samples = Array.from({ length: 400 }, (_, i) => 50_000 * (1 + (i % 4)) + 500 * prng.nextNormal());
  const { edges, masses } = histogramOf(samples);
  for (let mode = 1; mode < 4; mode++) {
    const middle = 50_000 * (mode + 0.5);
    const bin = edges.findIndex((edge) => edge > middle) - 1;
    expect(masses[bin]).toBe(0);
    expect(edges[bin]).toBeLessThan(middle - 20_000);
    expect(edges[bin + 1]).toBeGreaterThan(middle + 20_000);
  }
  expect(masses.filter((mass) => mass > 0).length).toBeLessThanOrEqual(20);
});

test("of what is even, skewed or in few samples the mean is at most 3 % below the samples' and 10 % above (the last bin is even), and the masses sum to 1", () => {
  const prng = new Prng(6);
  const draws: (() => number)[] = [
    () => 10_000 + 90_000 * prng.nextFloat(),
    () => 5_000 + prng.nextExponential(1 / 30_000),
    () => Math.exp(10 + 0.5 * prng.nextNormal()),
    () => (prng.nextFloat() < 0.9 ? 1_000 : 200_000) * (1 + 0.01 * prng.nextNormal()),
  ];
  for (const draw of draws)
    for (const count of [30, 100, 2_000]) {
      const samples = Array.from({ length: count }, draw);
      const histogram = histogramOf(samples);
      expect(histogram.masses.reduce((sum, mass) => sum + mass, 0)).toBeCloseTo(1, 9);
      expect(meanOf(histogram) / meanOfAll(samples)).toBeGreaterThan(0.97);
      expect(meanOf(histogram) / meanOfAll(samples)).toBeLessThan(1.1);
      expect(quantileOf(histogram, 1)).toBeCloseTo(Math.max(...samples), -3);
      expect(histogram.masses.length).toBeLessThanOrEqual(48);
    }
});

test("the mean of the longest of 16 is that of the samples to 1 %, though the longest sample is a quarter longer (B1)", () => {
  const prng = new Prng(7);
  const samples = Array.from({ length: 2_000 }, () => 200_000 * Math.exp(0.09 * prng.nextNormal())).sort(
    (a, b) => a - b,
  );
  const longest = samples.reduce(
    (sum, one, i) => sum + one * (((i + 1) / samples.length) ** 16 - (i / samples.length) ** 16),
    0,
  );
  const histogram = histogramOf(samples);
  const grid = halved(halved(histogram.edges));
  const upTo = cdfOn(histogram, grid).map((share) => share ** 16);
  const mean = meanOf({ edges: grid, masses: upTo.slice(1).map((share, i) => share - upTo[i]!) });
  expect(Math.abs(mean / longest - 1)).toBeLessThan(0.01);
});
