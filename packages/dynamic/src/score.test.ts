import fc from "fast-check";
import { expect, test } from "vitest";
import type { Instant } from "@tutti/units";
import { FeasibleQueues, LatencyCurve, LatencyModel, type Histogram, histogram } from "./index.ts";

const BINS = histogram([10, 20, 40, 60, 80], [0.5, 0.3, 0, 0.2]);
const B = 0.01;

/** α·x + β at t, with t0 = 0. */
function lineAt(curve: LatencyCurve, deadline: number, t: number): { alpha: number; beta: number; value: number } {
  const phase = curve.phaseAt(deadline, t);
  const alpha = curve.alpha(phase, Math.exp(-curve.chances * deadline));
  const beta = curve.beta(phase);
  return { alpha, beta, value: alpha * Math.exp(curve.chances * t) + beta };
}

test("B10.1: scores, milestones and lines of the worked example", () => {
  const curve = new LatencyCurve(BINS, B);
  expect(curve.mean).toBe(30.5);
  const scores = { 0: 0.016768237, 20: 0.020480771, 30: 0.019186526, 39: 0.017905722, 50: 0.019623596 };
  const later = { 65: 0.020277836, 75: 0.017238135, 85: 0.007995176, 90: 0 };
  for (const [t, score] of Object.entries({ ...scores, ...later })) {
    expect(curve.scoreAt(100 - Number(t))).toBeCloseTo(score, 9);
    expect(lineAt(curve, 100, Number(t)).value).toBeCloseTo(score, 9);
  }
  const milestones = new Set<number>();
  for (let phase = 0; curve.milestone(100, phase) < Infinity; phase++) milestones.add(curve.milestone(100, phase));
  expect([...milestones]).toEqual([20, 40, 60, 80, 90]);
  expect(lineAt(curve, 100, 0)).toMatchObject({ alpha: expect.closeTo(0.016768237, 9), beta: 0 });
  expect(lineAt(curve, 100, 30)).toMatchObject({
    alpha: expect.closeTo(-0.010075394, 9),
    beta: expect.closeTo(0.032786885, 9),
  });
  expect(lineAt(curve, 100, 75)).toMatchObject({
    alpha: expect.closeTo(-0.015088424, 9),
    beta: expect.closeTo(0.049180328, 9),
  });
});

test("B2: the order depends on b_τ: success per time when chances are rare, least slack when they are frequent", () => {
  const scoreOf = (low: number, high: number, slack: number, chances: number): number =>
    new LatencyCurve(histogram([low, high], [1]), chances).scoreAt(slack);
  expect(scoreOf(90, 110, 400, 1e-4)).toBeCloseTo(0.0097045, 7);
  expect(scoreOf(100, 120, 150, 1e-4)).toBeCloseTo(0.0090546, 7);
  expect(scoreOf(90, 110, 400, 1e-2)).toBeCloseTo(0.0004987, 7);
  expect(scoreOf(100, 120, 150, 1e-2)).toBeCloseTo(0.006104, 7);
});

test("B10.4: what costs in several steps is the sum of its steps", () => {
  const model = new LatencyModel({
    ...{ apps: [{ alone: BINS, share: 1 }], sizes: [1], chances: B },
    costs: () => ({ fixed: 0, slope: 1 }),
  });
  const queues = new FeasibleQueues({ model, chances: B, requestsMax: 8 });
  const steps = [
    { deadline: 50, cost: 1 },
    { deadline: 80, cost: 3 },
    { deadline: 120, cost: 4 },
  ].map(({ deadline, cost }) => ({ deadline: deadline as Instant, cost }));
  const slot = queues.add(0 as Instant, { app: 0, deadline: 120 as Instant, steps }) as number;
  const scores = { 0: 0.07431381, 25: 0.072199181, 60: 0.04895701, 100: 0.015600423 };
  for (const [t, score] of Object.entries(scores))
    expect(queues.scoreAt(Number(t) as Instant, slot, 0)).toBeCloseTo(score, 8);
});

const histograms: fc.Arbitrary<Histogram> = fc
  .array(fc.record({ width: fc.double({ min: 10, max: 500, noNaN: true }), mass: fc.nat(20) }), {
    minLength: 1,
    maxLength: 8,
  })
  .filter((bins) => bins.some(({ mass }) => mass > 0))
  .chain((bins) =>
    fc.double({ min: 0, max: 1000, noNaN: true }).map((start) => {
      const edges = [start];
      for (const { width } of bins) edges.push(edges.at(-1)! + width);
      const total = bins.reduce((sum, { mass }) => sum + mass, 0);
      return histogram(
        edges,
        bins.map(({ mass }) => mass / total),
      );
    }),
  );

test("a score is never negative, equals the integral that it stands for, and equals its line (B11)", () => {
  const slacks = fc.double({ min: -100, max: 6_000, noNaN: true });
  const chances = fc.constantFrom(1e-7, 1e-5, 1e-3, 1e-2);
  fc.assert(
    fc.property(histograms, slacks, chances, (bins, slack, b) => {
      const curve = new LatencyCurve(bins, b);
      const score = curve.scoreAt(slack);
      expect(score).toBeGreaterThanOrEqual(0);
      const exact = quadrature(bins, slack, b) / curve.mean;
      expect(Math.abs(score - exact)).toBeLessThanOrEqual(1e-9 * Math.max(exact, 1e-6));
      // Rounding of a line is relative to its parts, of which β is the largest.
      const line = lineAt(curve, Math.max(slack, 0), Math.max(0, -slack)).value;
      expect(Math.abs(line - score)).toBeLessThanOrEqual(1e-9 * Math.max(score, 1 / (curve.mean * b)));
    }),
  );
});

/** ∫ f(l)·e^{−b(slack−l)} dl up to the slack, by Gauss–Legendre with 5 points on 40 parts of each bin. */
function quadrature({ edges, masses }: Histogram, slack: number, b: number): number {
  const nodes = [0, 0.5384693101056831, -0.5384693101056831, 0.906179845938664, -0.906179845938664];
  const weights = [
    0.5688888888888889, 0.47862867049936647, 0.47862867049936647, 0.23692688505618908, 0.23692688505618908,
  ];
  let total = 0;
  for (let j = 0; j < masses.length; j++) {
    const end = Math.min(edges[j + 1]!, slack);
    if (end <= edges[j]!) continue;
    const density = masses[j]! / (edges[j + 1]! - edges[j]!);
    const part = (end - edges[j]!) / 40;
    for (let i = 0; i < 40; i++) {
      const middle = edges[j]! + (i + 0.5) * part;
      for (const [n, node] of nodes.entries())
        total += (weights[n]! * part * density * Math.exp(-b * (slack - middle - (node * part) / 2))) / 2;
    }
  }
  return total;
}
