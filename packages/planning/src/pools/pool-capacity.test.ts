import { LatencyTable } from "@tutti/profile";
import { micros } from "@tutti/units";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { D6_BATCH_MAX, D6_PROFILES } from "../testing/worked-fractions.ts";
import { type PooledModel, poolCapacity } from "./pool-capacity.ts";

const perSecond = (perMicro: number): number => 1e6 * perMicro;

/** D6's models on parts of `size` percent, asked for equally. */
const D6 = (size: number, slower = 1): PooledModel[] =>
  D6_PROFILES.map(({ alpha, beta, sigma, slo }) => {
    const points = Array.from({ length: D6_BATCH_MAX }, (_, i) => {
      const ms = beta + (alpha * (i + 1)) / Math.min(size / 100, 1, sigma * (i + 1));
      return { batchSize: i + 1, latency: micros(Math.ceil(slower * Math.round(1000 * ms))) };
    });
    return { share: 1, slo: 1000 * slo, dispersion: 1, profile: LatencyTable.fromPoints(points) };
  });

describe("worked: docs/algorithms.md, D9", () => {
  test.each([
    { count: 4, size: 100, carried: 77.71, what: "four whole accelerators" },
    { count: 8, size: 50, carried: 1488.07, what: "eight halves of them" },
    { count: 8, size: 100, carried: 2945.2, what: "eight whole accelerators" },
    { count: 16, size: 50, carried: 4314.39, what: "sixteen halves of them" },
  ])("D6's models on $what", ({ count, size, carried }) => {
    const found = poolCapacity(D6(size), count);
    expect(perSecond(found.carried)).toBeCloseTo(carried, 1);
    expect(D6_PROFILES[found.waits!]!.name).toBe("le");
  });

  test("one model of an SLO that leaves room for a queue is limited by its work alone", () => {
    const profile = LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 8 });
    const { carried, waits } = poolCapacity([{ share: 1, slo: 100_000, dispersion: 0, profile }], 4);
    expect(waits).toBeUndefined();
    expect(perSecond(carried)).toBeCloseTo((4 * 8e6) / 13_000, 3);
  });
});

/** Feasible as D9 reads, without any of the code under test. */
function isCarried(models: readonly PooledModel[], count: number, rate: number): boolean {
  const total = models.reduce((sum, { share }) => sum + share, 0);
  const runs = models.map(({ share, slo, profile, dispersion }) => {
    const own = (rate * share) / total;
    let b = 1;
    for (let next = 2; next <= profile.batchSizeMax; next++) {
      const time = profile.byBatchSize[next]!;
      if (time + (next - 1) / own > slo || time + time / count > slo) break;
      b = next;
    }
    const time = profile.byBatchSize[b]!;
    return { rate: own / b, time, variance: (own * (time / b) ** 2 * dispersion) / slo };
  });
  const work = runs.reduce((sum, run) => sum + run.rate * run.time, 0);
  const swing = 2.326 * Math.sqrt(runs.reduce((sum, run) => sum + run.variance, 0));
  return (
    work + swing <= count &&
    models.every(({ slo, profile }) => {
      const longer = runs.map((run) => run.rate * Math.max(0, run.time - (slo - profile.byBatchSize[1]!)));
      return (longer.reduce((sum, time) => sum + time, 0) / count) ** count <= 0.01;
    })
  );
}

const drawnModel = fc
  .record({
    share: fc.integer({ min: 1, max: 100 }),
    alpha: fc.integer({ min: 50, max: 20_000 }),
    beta: fc.integer({ min: 200, max: 40_000 }),
    times: fc.double({ min: 1.1, max: 10, noNaN: true }),
    dispersion: fc.constantFrom(0, 1, 10),
  })
  .map(({ share, alpha, beta, times, dispersion }): PooledModel => {
    const slo = Math.round(times * (alpha + beta));
    return { share, slo, dispersion, profile: LatencyTable.affine({ alpha, beta, batchSizeMax: 32 }) };
  });
const drawnPool = fc.record({
  models: fc.array(drawnModel, { minLength: 1, maxLength: 6 }),
  count: fc.integer({ min: 1, max: 32 }),
});

test("just below the capacity everything holds, just above it something doesn't", () => {
  fc.assert(
    fc.property(drawnPool, ({ models, count }) => {
      const { carried } = poolCapacity(models, count);
      expect(isCarried(models, count, 0.999_999 * carried)).toBe(true);
      expect(isCarried(models, count, 1.001 * carried)).toBe(false);
    }),
  );
});

test("what holds again at higher rates, where batches are larger, is found beyond rates at which it doesn't", () => {
  const model = (share: number, slo: number, alpha: number, beta: number): PooledModel => {
    return { share, slo, dispersion: 1, profile: LatencyTable.affine({ alpha, beta, batchSizeMax: 16 }) };
  };
  // The two models that even work puts together in E8's example.
  const models = [model(5, 12_000, 1_000, 4_000), model(1, 400_000, 5_000, 75_000)];
  const holds = [30, 33, 38, 40, 43, 44].map((rate) => isCarried(models, 2, rate / 1e6));
  expect(holds).toEqual([true, false, false, true, true, false]);
  expect(perSecond(poolCapacity(models, 2).carried)).toBeCloseTo(43.37, 2);
});

test("shares count relative to one another, and a model without requests not at all", () => {
  fc.assert(
    fc.property(drawnPool, drawnModel, ({ models, count }, other) => {
      const found = poolCapacity(models, count);
      const scaled = models.map((model) => ({ ...model, share: 3 * model.share }));
      expect(poolCapacity(scaled, count).carried).toBeCloseTo(found.carried, 12);
      const idle = { ...other, share: 0, slo: 1 };
      const { carried, waits } = poolCapacity([idle, ...models], count);
      expect(carried).toBe(found.carried);
      expect(waits).toBe(found.waits === undefined ? undefined : found.waits + 1);
    }),
  );
});

test("a model that can't meet its SLO alone is named, and nothing is carried; nor without models or accelerators", () => {
  const [le, be] = D6(100);
  const late = { ...be!, slo: be!.profile.byBatchSize[1]! - 1 };
  expect(poolCapacity([le!, late], 4)).toEqual({ carried: 0, waits: 1 });
  expect(poolCapacity([], 4)).toEqual({ carried: 0, waits: undefined });
  expect(poolCapacity([le!], 0)).toEqual({ carried: 0, waits: undefined });
});
