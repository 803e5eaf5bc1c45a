import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Histogram,
  LatencyModel,
  affineCosts,
  cdfOn,
  coldHistogram,
  fitBatchCosts,
  halved,
  histogram,
  histogramOf,
  mapped,
  meanOf,
  paperForm,
  pointHistogram,
  productOf,
  quantileOf,
  unionGrid,
} from "./index.ts";

const EDGES = [5, 6, 9, 10, 11, 12, 15, 16];
const A = histogram(EDGES, [0, 0, 0.1, 0.8, 0.1, 0, 0]);
const B = histogram(EDGES, [0.5, 0, 0, 0, 0, 0, 0.5]);
const ALONE = { fixed: 0, slope: 1 };

/** Distribution of the maximum of independent draws. */
function maximumOf(members: readonly Histogram[], halvings = 0): Histogram {
  let grid = unionGrid(members);
  for (let i = 0; i < halvings; i++) grid = halved(grid);
  const product = members.map((one) => cdfOn(one, grid)).reduce((all, cdf) => all.map((value, i) => value * cdf[i]!));
  return mapped(grid, product, ALONE);
}

test("B10.2: the maximum of a batch by products of CDFs", () => {
  expect([meanOf(A), meanOf(B)]).toEqual([expect.closeTo(10.5, 12), expect.closeTo(10.5, 12)]);
  const both = maximumOf([A, B]);
  expect([...both.masses]).toEqual([0, 0, 0.05, 0.4, 0.05, 0, 0.5].map((mass) => expect.closeTo(mass, 12)));
  expect(meanOf(both)).toBeCloseTo(13, 12);
  const twice = maximumOf([A, A]);
  expect([...twice.masses].slice(2, 5)).toEqual([0.01, 0.8, 0.19].map((mass) => expect.closeTo(mass, 12)));
  expect(meanOf(twice)).toBeCloseTo(10.68, 10);
  expect(meanOf(maximumOf([A, A], 8))).toBeCloseTo(10.79, 2);
  expect(meanOf(maximumOf([A, A, B, B]))).toBeCloseTo(14.295, 10);
  const exact = maximumOf([A, A, B, B], 9);
  expect(meanOf(exact)).toBeCloseTo(14.364167, 4);
  expect(2 + 0.3 * 4 * meanOf(exact)).toBeCloseTo(19.237, 3);
});

test("B10.2: a batch of which one member is known, the others drawn from the mixture", () => {
  let grid = unionGrid([A, B]);
  const mixOn = (own: Float64Array): Float64Array => {
    const other = cdfOn(B, own);
    return cdfOn(A, own).map((value, i) => (value + other[i]!) / 2);
  };
  const meanWith = (known: Histogram | undefined): number => {
    const mix = mixOn(grid);
    return meanOf(mapped(grid, productOf(known === undefined ? mix : cdfOn(known, grid), mix, 3), ALONE));
  };
  expect(meanWith(undefined)).toBeCloseTo(13.97055, 10);
  for (let i = 0; i < 9; i++) grid = halved(grid);
  expect(meanWith(undefined)).toBeCloseTo(14.062553, 4);
  expect(meanWith(A)).toBeCloseTo(13.593386, 4);
  expect(meanWith(B)).toBeCloseTo(14.531719, 4);
});

test("B10.3: estimates by application and batch size", () => {
  const [a, b] = [histogram([10, 20], [1]), histogram([40, 60], [1])];
  const model = new LatencyModel({
    apps: [
      { alone: a, share: 1 },
      { alone: b, share: 1 },
    ],
    ...{ sizes: [1, 2, 4], costs: affineCosts(4, 0.5), chances: 1e-4, halvingsMax: 0 },
  });
  const estimates = (app: number): number[] => [0, 1, 2].map((place) => model.estimate(app, place));
  expect(estimates(0)).toEqual([11.5, 36.5, 95.25].map((value) => expect.closeTo(value, 10)));
  expect(estimates(1)).toEqual([29, 54, 104].map((value) => expect.closeTo(value, 10)));
});

test("B10.5: costs are recovered from runs, for each batch size and in the paper's form", () => {
  const samples = [1, 2, 4, 8].flatMap((batchSize) =>
    [10, 25, 70].map((alone) => ({ batchSize, alone, took: 4 + 0.5 * batchSize * alone })),
  );
  expect(paperForm(samples)(3)).toEqual({ fixed: expect.closeTo(4, 9), slope: expect.closeTo(1.5, 12) });
  const costs = fitBatchCosts(samples);
  expect(costs(1)).toEqual({ fixed: 0, slope: 1 });
  expect(costs(8)).toEqual({ fixed: expect.closeTo(4, 9), slope: expect.closeTo(4, 12) });
  expect(costs(6)).toEqual({ fixed: expect.closeTo(4, 9), slope: expect.closeTo(3, 12) });
  // For one static model, whose requests all take the same time, a slope can't be told from a constant.
  const still = fitBatchCosts([1, 2, 4].map((batchSize) => ({ batchSize, alone: 10, took: 5 + 2 * batchSize })));
  expect(still(4).fixed + still(4).slope * 10).toBeCloseTo(13, 9);
});

const samples = fc.array(fc.double({ min: 1, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 300 });

test("a histogram holds its samples: at most 16 bins, none too narrow, masses that sum to 1, and roughly its mean (B1)", () => {
  fc.assert(
    fc.property(samples, (values) => {
      const { edges, masses } = histogramOf(values);
      const sorted = values.toSorted((a, b) => a - b);
      const least = Math.max(10, 0.005 * sorted[sorted.length >> 1]!);
      expect(masses.length).toBeLessThanOrEqual(16);
      expect(masses.reduce((sum, mass) => sum + mass, 0)).toBeCloseTo(1, 12);
      for (let j = 0; j < masses.length; j++) expect(edges[j + 1]! - edges[j]!).toBeGreaterThan(least * (1 - 1e-9));
      expect(edges[0]).toBe(sorted[0]);
      expect(edges.at(-1)).toBeGreaterThan(sorted.at(-1)! * (1 - 1e-12));
      expect(cdfOn({ edges, masses }, edges).at(-1)).toBe(1);
      const median = quantileOf({ edges, masses }, 0.5);
      expect(median).toBeGreaterThanOrEqual(edges[0]!);
      expect(median).toBeLessThanOrEqual(edges.at(-1)!);
    }),
  );
});

test("what is static is one bin of least width; what is cold is even within a fifth", () => {
  expect(pointHistogram(20_000)).toEqual(histogram([20_000, 20_100], [1]));
  expect(pointHistogram(100)).toEqual(histogram([100, 110], [1]));
  expect(histogramOf([500, 500, 500])).toEqual(histogram([500, 510], [1]));
  expect(meanOf(coldHistogram(1000))).toBeCloseTo(1000, 9);
  expect([...coldHistogram(1000).edges]).toEqual([800, 1200]);
});

test("a batch of more never gets shorter: CDFs fall and estimates rise with its size, whatever the mixture (B11)", () => {
  const apps = fc.array(fc.record({ values: samples, share: fc.double({ min: 0.01, max: 5, noNaN: true }) }), {
    minLength: 1,
    maxLength: 3,
  });
  fc.assert(
    fc.property(apps, fc.constantFrom("joint" as const, "mixture" as const), (given, members) => {
      const model = new LatencyModel({
        apps: given.map(({ values, share }) => ({ alone: histogramOf(values), share })),
        ...{ sizes: [1, 2, 4, 8, 16], costs: affineCosts(100, 0.4), chances: 1e-7, members },
      });
      for (let app = 0; app < given.length; app++)
        for (let place = 1; place < 5; place++) {
          expect(model.estimate(app, place)).toBeGreaterThanOrEqual(model.estimate(app, place - 1));
          expect(model.curve(app, place).mean).toBeLessThanOrEqual(model.estimate(app, place) * (1 + 1e-12));
        }
    }),
    { numRuns: 60 },
  );
});
