import fc from "fast-check";
import { expect, test } from "vitest";
import {
  BatchLevels,
  LatencyCurve,
  type ClassLatency,
  affineCosts,
  costsFromOne,
  histogram,
  meanOf,
  mixtureOf,
  pointHistogram,
} from "./index.ts";

const MS = 1_000;
const CHANCES = 3e-7;
const SIZES = [1, 2, 3, 4, 8];
const COSTS = costsFromOne(affineCosts(10 * MS, 0.3));

const anyHistogram = fc
  .array(fc.record({ width: fc.integer({ min: 100, max: 200 * MS }), mass: fc.integer({ min: 0, max: 9 }) }), {
    minLength: 1,
    maxLength: 8,
  })
  .filter((bins) => bins.some(({ mass }) => mass > 0))
  .chain((bins) =>
    fc.integer({ min: 1 * MS, max: 300 * MS }).map((from) => {
      const edges = [from];
      for (const { width } of bins) edges.push(edges.at(-1)! + width);
      const total = bins.reduce((sum, { mass }) => sum + mass, 0);
      return histogram(
        edges,
        bins.map(({ mass }) => mass / total),
      );
    }),
  );
const anyClasses = fc.array(fc.record({ alone: anyHistogram, share: fc.double({ min: 0.01, max: 1, noNaN: true }) }), {
  minLength: 1,
  maxLength: 6,
});
const levelsOf = (classes: readonly ClassLatency[], certainty = 0.5): BatchLevels =>
  new BatchLevels({ classes, sizes: SIZES, costs: COSTS, chances: CHANCES, certainty });

test("with one class a batch is Orloj's F^k: the mean of the longest of k (BL1)", () => {
  const alone = histogram([100 * MS, 200 * MS], [1]);
  const levels = levelsOf([{ alone, share: 1 }]);
  // The greatest of k drawn evenly from [100, 200) is 100 + 100·k/(k+1) in the mean.
  for (const [place, size] of SIZES.entries()) {
    const longest = 100 * MS + (100 * MS * size) / (size + 1);
    const { fixed, slope } = COSTS(size);
    expect(levels.expected(0, place) / (fixed + slope * longest)).toBeCloseTo(1, 1);
  }
});

test("short requests by themselves make short batches, whoever else there is", () => {
  const short = { alone: pointHistogram(50 * MS), share: 0.5 };
  const long = { alone: pointHistogram(500 * MS), share: 0.5 };
  const levels = levelsOf([long, short]);
  expect([levels.levelOf(0), levels.levelOf(1)]).toEqual([1, 0]);
  expect(levels.expected(0, 3)).toBeCloseTo(COSTS(4).fixed + COSTS(4).slope * 50.125 * MS, -3);
  expect(levels.expected(1, 3) / levels.expected(0, 3)).toBeGreaterThan(5);
});

test("at the table's own slacks scores are those of the closed form, whatever bins there are", () => {
  fc.assert(
    fc.property(anyHistogram, (alone) => {
      const levels = levelsOf([{ alone, share: 1 }]);
      const curve = new LatencyCurve(alone, CHANCES);
      for (let i = 0; i <= 64; i++) {
        const slack = curve.least + (i / 64) * (curve.most - curve.least);
        const exact = curve.scoreAt(slack);
        expect(Math.abs(levels.score(0, 0, slack) - exact)).toBeLessThanOrEqual(1e-9 * curve.scoreAt(curve.most));
      }
    }),
  );
});

test("scores read from the table are those of the closed form within a fiftieth of the greatest (BL2)", () => {
  fc.assert(
    fc.property(anyHistogram, fc.double({ min: 0, max: 3, noNaN: true }), (alone, times) => {
      const levels = levelsOf([{ alone, share: 1 }]);
      const slack = times * levels.bound(0, 0);
      const exact = new LatencyCurve(alone, CHANCES); // a batch of one takes what its request takes
      expect(Math.abs(levels.score(0, 0, slack) - exact.scoreAt(slack)) * exact.mean).toBeLessThan(0.02);
    }),
  );
});

test("no batch of more, or of longer requests, is expected to take less, beyond the first", () => {
  fc.assert(
    fc.property(anyClasses, (classes) => {
      const levels = levelsOf(classes);
      for (let level = 0; level < classes.length; level++)
        for (let place = 2; place < SIZES.length; place++)
          expect(levels.expected(level, place)).toBeGreaterThan(levels.expected(level, place - 1));
    }),
  );
});

test("a mixture has its parts' mean, and no more bins than four times sixteen", () => {
  fc.assert(
    fc.property(anyClasses, (classes) => {
      const mixture = mixtureOf(classes);
      expect(mixture.masses.length).toBeLessThanOrEqual(64);
      const total = classes.reduce((sum, { share }) => sum + share, 0);
      const mean = classes.reduce((sum, { share, alone }) => sum + (share / total) * meanOf(alone), 0);
      expect(meanOf(mixture) / mean).toBeCloseTo(1, 6);
    }),
  );
});
