import { LatencyTable } from "@tutti/profile";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import { D6_BATCH_MAX, D6_PROFILES } from "../testing/worked-fractions.ts";
import { poolCapacity } from "./pool-capacity.ts";
import { typedCapacity } from "./typed-capacity.ts";

const table = (times: number): LatencyTable =>
  LatencyTable.affine({ alpha: 263 * times, beta: 1_268 * times, batchSizeMax: 64 });
const model = (share: number, slo: number, profiles: readonly (LatencyTable | undefined)[], dispersion = 1) => {
  return { share, slo, dispersion, profiles };
};

/**
 * D6's models on types that take so many times as long; undefined where a run takes more than two thirds of its SLO.
 */
const d6 = (times: readonly number[]) =>
  D6_PROFILES.map(({ alpha, beta, sigma, slo }) => {
    const on = (slower: number): LatencyTable =>
      LatencyTable.fromPoints(
        Array.from({ length: D6_BATCH_MAX }, (_, i) => {
          const ms = beta + (alpha * (i + 1)) / Math.min(1, sigma * (i + 1));
          return { batchSize: i + 1, latency: micros(Math.ceil(slower * Math.round(1000 * ms))) };
        }),
      );
    const profiles = times.map((slower) => (on(slower).byBatchSize[1]! <= (1000 * slo) / 1.5 ? on(slower) : undefined));
    return model(1, 1000 * slo, profiles);
  });

test("worked, D9: D6's models on 4 accelerators and 8 that take twice as long, of which simulation carries 2,840 r/s", () => {
  const { carried, waits } = typedCapacity(d6([1, 2]), [4, 8]);
  expect(1e6 * carried).toBeCloseTo(3087.72, 1);
  expect(D6_PROFILES[waits!]!.name).toBe("le");
});

test("types that are alike carry what as many accelerators of one type do", () => {
  for (const models of [d6([1, 1]), [model(1, 25_000, [table(1), table(1)], 10)]]) {
    const pool = models.map(({ profiles, ...one }) => ({ ...one, profile: profiles[0]! }));
    const alike = poolCapacity(pool, 8);
    for (const counts of [
      [4, 4],
      [1, 7],
      [8, 0],
    ]) {
      const { carried, waits } = typedCapacity(models, counts);
      expect(carried / alike.carried).toBeCloseTo(1, 4);
      expect(waits).toBe(alike.waits);
    }
  }
});

test("one model: the types together carry a little more than each for itself", () => {
  const { carried } = typedCapacity([model(1, 25_000, [table(1), table(4)])], [8, 16]);
  const alone = (times: number, count: number): number =>
    poolCapacity([{ share: 1, slo: 25_000, dispersion: 1, profile: table(times) }], count).carried;
  expect(carried).toBeGreaterThan(alone(1, 8) + alone(4, 16));
  expect(carried).toBeLessThan(1.02 * (alone(1, 8) + alone(4, 16)));
});

test("other models make room on the only type that serves one", () => {
  const models = [model(1, 6_000, [table(1), undefined]), model(1, 25_000, [table(1), table(4)])];
  const { carried } = typedCapacity(models, [8, 16]);
  const alike = typedCapacity([model(1, 25_000, [table(1), table(4)])], [8, 16]);
  expect(carried).toBeGreaterThan(0.8 * alike.carried);
});

test("bursts of a model that only one type serves are met by that type alone", () => {
  const bursts = (slow: LatencyTable | undefined): number =>
    typedCapacity([model(1, 25_000, [table(1), slow], 10)], [1, 100]).carried;
  const alone = poolCapacity([{ share: 1, slo: 25_000, dispersion: 10, profile: table(1) }], 1).carried;
  expect(bursts(undefined)).toBeLessThan(1.1 * alone);
  expect(bursts(table(4))).toBeGreaterThan(10 * alone);
});

test("a model that no type serves, or no accelerators: nothing is carried, and the model is named", () => {
  const other = model(1, 25_000, [table(1)]);
  expect(typedCapacity([other, model(1, 6_000, [undefined])], [8])).toMatchObject({ carried: 0, waits: 1 });
  expect(typedCapacity([model(1, 6_000, [table(1)])], [0])).toMatchObject({ carried: 0, waits: undefined });
  expect(typedCapacity([other, model(1, 1_000, [table(1)])], [4])).toMatchObject({ carried: 0, waits: 1 });
});

test("a type that can't serve one model in time still serves the others", () => {
  const urgent = (slow: LatencyTable | undefined) => model(0.1, 6_000, [table(1), slow]);
  const patient = model(0.9, 25_000, [table(1), table(4)]);
  const { carried } = typedCapacity([urgent(table(4)), patient, { ...urgent(undefined), share: 0 }], [2, 8]);
  expect(carried).toBe(typedCapacity([urgent(undefined), patient], [2, 8]).carried);
});

test("accelerators of unlike types cost no more looks at latencies than of one, for each type", () => {
  let looks = 0;
  const byBatchSize = new Proxy(table(1).byBatchSize, {
    get: (sizes, b) => {
      looks++;
      return sizes[Number(b)];
    },
  });
  const profile = { byBatchSize, batchSizeMax: 64 };
  const looksFor = (types: number): number => {
    looks = 0;
    const profiles = Array.from({ length: types }, () => profile);
    typedCapacity(
      [{ share: 1, slo: 25_000, dispersion: 1, profiles }],
      Array.from({ length: types }, () => 8),
    );
    return looks;
  };
  const one = looksFor(1);
  expect(one).toBeLessThan(600);
  expect(looksFor(3)).toBeLessThan(3.3 * one);
});
