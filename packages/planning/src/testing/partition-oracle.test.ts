import { describe, expect, test } from "vitest";
import {
  type FractionModel,
  type Interference,
  WHOLE,
  factorBeside,
  partition,
  partitionPortfolio,
  partitionThoroughly,
  usedOf,
} from "../index.ts";
import { D6_INTERFERENCE, D6_PROFILES, PartitionOracle, d6Model } from "./index.ts";

const idOf = (name: string): number => D6_PROFILES.findIndex((profile) => profile.name === name);
const shareOf = (name: string, perSecond: number): FractionModel => d6Model(idOf(name), perSecond);

describe("one executor, beside looking at every duty cycle of a fine grid", () => {
  /** A part, by a grid of 0.05 ms and running one model without a pause. */
  const partFits = (size: number, own: readonly FractionModel[], other: readonly FractionModel[], c?: Interference) => {
    const latency = (model: FractionModel, b: number): number => {
      const factors = other.map((one) =>
        c === undefined ? 1 : factorBeside(c, { model, size }, { model: one, size: WHOLE - size }),
      );
      return model.latency(b, size) * Math.max(1, ...factors);
    };
    const sizes = Array.from({ length: 32 }, (_, i) => i + 1);
    if (own.length === 0) return true;
    if (
      own.length === 1 &&
      sizes.some((b) => 2 * latency(own[0]!, b) <= own[0]!.slo && b >= own[0]!.rate * latency(own[0]!, b))
    )
      return true;
    for (let cycle = 0.05; cycle < 202; cycle += 0.05) {
      const batches = own.map(({ rate }) => Math.max(1, Math.ceil(cycle * rate - 1e-9)));
      if (batches.some((b) => b > 32)) continue;
      const times = own.map((model, i) => latency(model, batches[i]!));
      if (times.some((time, i) => cycle + time > own[i]!.slo)) continue;
      if (times.reduce((sum, time) => sum + time, 0) <= cycle) return true;
    }
    return false;
  };
  const anyFits = (models: readonly FractionModel[], c?: Interference): boolean => {
    if (partFits(WHOLE, models, [], c)) return true;
    for (let mask = 0; mask < 1 << models.length; mask++) {
      const [first, second] = [0, 1].map((side) => models.filter((_, i) => ((mask >> i) & 1) === side));
      for (const size of [20, 40, 50])
        if (partFits(size, first!, second!, c) && partFits(WHOLE - size, second!, first!, c)) return true;
    }
    return false;
  };
  const scaled = (models: readonly FractionModel[], by: number) =>
    models.map((model) => ({ ...model, rate: by * model.rate }));
  const oracleFits = (models: readonly FractionModel[], c?: Interference): boolean =>
    new PartitionOracle(models, { shares: 1, executorsMax: 1, ...(c !== undefined && { interference: c }) }).fewest(
      models.map(() => 1),
    ) === 1;

  test.for([
    [["res", "vgg"], undefined],
    [["res", "vgg"], D6_INTERFERENCE],
    [["goo", "res", "vgg"], undefined],
    [["nas", "mob"], D6_INTERFERENCE],
    [["be", "goo", "ssd"], D6_INTERFERENCE],
  ] as const)(
    "%j: what the grid finds the oracle finds, and what the oracle finds the grid finds at 1 %% less",
    ([names, c]) => {
      let borders = 0;
      let fitted = true;
      for (let rate = 40; rate <= 600; rate += 80) {
        const models = names.map((name) => shareOf(name, rate));
        const fits = oracleFits(models, c);
        if (anyFits(models, c)) expect([rate, fits]).toEqual([rate, true]);
        if (fits) expect([rate, anyFits(scaled(models, 0.99), c)]).toEqual([rate, true]);
        if (fitted && !fits) borders++;
        fitted = fits;
      }
      expect(borders).toBe(1);
    },
  );
});

test("shares of one model may be on several parts, and a model that needs more than there is fits nowhere", () => {
  // T(100) of res is 592.59 r/s (D6.1).
  const oracle = new PartitionOracle([shareOf("res", 290)], { shares: 5, executorsMax: 2 });
  expect([1, 2, 3, 4, 5].map((count) => oracle.fewest([count]))).toEqual([1, 1, 2, 2, Infinity]);
});

/** §3.2: every model at 0, 100 or 200 r/s, in the order of a counter to base 3. */
const countsOf = (number: number): number[] => D6_PROFILES.map((_, i) => Math.floor(number / 3 ** i) % 3);
const MODELS = D6_PROFILES.map((_, id) => [d6Model(id, 100), d6Model(id, 200)] as const);
const SHARES = D6_PROFILES.map((_, id) => d6Model(id, 100));

test(
  "of every 97th of the 19,682 scenarios no search fits one that the oracle doesn't, and on four executors at most 2.6 % are missed (gpulet's share)",
  {
    timeout: 60_000,
  },
  () => {
    const seen = { ideal: 0, found: 0 };
    const interference = D6_INTERFERENCE;
    const oracle = new PartitionOracle(SHARES, { shares: 2, executorsMax: 4, interference });
    for (let number = 97; number < 3 ** 9; number += 97) {
      const counts = countsOf(number);
      const models = counts.flatMap((count, i) => (count === 0 ? [] : [MODELS[i]![count - 1]!]));
      const fewest = oracle.fewest(counts);
      for (const executors of [2, 4]) {
        const found = partitionPortfolio(models, { executors, interference });
        if (found !== undefined) expect(fewest).toBeLessThanOrEqual(usedOf(found));
        if (executors < 4) continue;
        if (fewest <= executors) seen.ideal++;
        if (found !== undefined) seen.found++;
      }
    }
    expect(seen.ideal).toBeGreaterThan(190);
    expect(seen.found / seen.ideal).toBeGreaterThan(1 - 0.026);
  },
);

describe("what a portfolio leaves out", () => {
  const interference = D6_INTERFERENCE;
  const fits = (search: typeof partitionThoroughly, models: readonly FractionModel[], executors: number) =>
    search(models, { executors, interference });
  const at = (rates: Readonly<Record<string, number>>) =>
    Object.entries(rates).map(([name, rate]) => shareOf(name, rate));

  test("in descending order nas at 200 r/s, mob and vgg at 100 fit on one executor, and the attempt makes the same again", () => {
    const models = at({ nas: 200, mob: 100, vgg: 100 });
    expect(fits(partitionPortfolio, models, 1)).toBeUndefined();
    const found = fits(partitionThoroughly, models, 1)!;
    expect(found.attempt).toEqual({ order: "descending", splits: [80] });
    expect(partition(models, { executors: 1, interference, ...found.attempt })).toEqual(found);
  });

  test("parts that one model fills leave room for a neighbour where neighbours are expected: den and vgg at hundreds of requests per second", () => {
    // Room that isn't left is what makes a neighbour unbearable: everything runs at its SLO's edge.
    let gained = 0;
    for (let rate = 500; rate <= 800; rate += 25) {
      const models = at({ den: rate, vgg: rate });
      const [portfolio, thorough] = [partitionPortfolio, partitionThoroughly].map((search) => fits(search, models, 4));
      if (portfolio !== undefined) expect(thorough).toEqual(portfolio);
      if (portfolio === undefined && thorough !== undefined) gained++;
    }
    expect(gained).toBeGreaterThan(0);
  });
});
