import { LatencyTable } from "@tutti/profile";
import { expect, test } from "vitest";
import { poolCapacity } from "./pool-capacity.ts";
import { typedCapacity } from "./typed-capacity.ts";

const table = (times: number): LatencyTable =>
  LatencyTable.affine({ alpha: 263 * times, beta: 1_268 * times, batchSizeMax: 64 });
const model = (share: number, slo: number, profiles: readonly (LatencyTable | undefined)[]) => {
  return { share, slo, dispersion: 1, profiles };
};

test("one model: the types together carry the sum of what each carries", () => {
  const { carried, split } = typedCapacity([model(1, 25_000, [table(1), table(4)])], [8, 16]);
  const alone = (times: number, count: number): number =>
    poolCapacity([{ share: 1, slo: 25_000, dispersion: 1, profile: table(times) }], count).carried;
  expect(carried).toBeCloseTo(alone(1, 8) + alone(4, 16), 4);
  expect(split[0]![0]).toBeCloseTo(alone(1, 8) / carried, 3);
});

test("a model that only one type serves is there alone, and the others make room for it", () => {
  const models = [model(1, 6_000, [table(1), undefined]), model(1, 25_000, [table(1), table(4)])];
  const { carried, split } = typedCapacity(models, [8, 16]);
  expect(split[0]).toEqual([1, 0]);
  expect(split[1]![0]).toBeLessThan(0.4);
  const alike = typedCapacity([model(1, 25_000, [table(1), table(4)])], [8, 16]);
  expect(carried).toBeGreaterThan(0.8 * alike.carried);
});

test("a model that no type serves, or no accelerators: nothing is carried", () => {
  expect(typedCapacity([model(1, 6_000, [undefined])], [8]).carried).toBe(0);
  expect(typedCapacity([model(1, 6_000, [table(1)])], [0]).carried).toBe(0);
  expect(typedCapacity([model(1, 1_000, [table(1)])], [4]).carried).toBe(0);
});

test("a type that can't serve one model in time still serves the others", () => {
  const urgent = (slow: LatencyTable | undefined) => model(0.1, 6_000, [table(1), slow]);
  const patient = model(0.9, 25_000, [table(1), table(4)]);
  const { carried, split } = typedCapacity([urgent(table(4)), patient, { ...urgent(undefined), share: 0 }], [2, 8]);
  expect(carried).toBe(typedCapacity([urgent(undefined), patient], [2, 8]).carried);
  expect(split.flat().every((part) => part >= 0 && part <= 1)).toBe(true);
});

test("accelerators of one type cost no more than their pool, and carry the same", () => {
  let looks = 0;
  const byBatchSize = new Proxy(table(1).byBatchSize, {
    get: (sizes, b) => {
      looks++;
      return sizes[Number(b)];
    },
  });
  const profile = { byBatchSize, batchSizeMax: 64 };
  const pool = poolCapacity([{ share: 1, slo: 25_000, dispersion: 1, profile }], 8);
  const inPool = looks;
  looks = 0;
  const typed = typedCapacity([{ share: 1, slo: 25_000, dispersion: 1, profiles: [profile] }], [8]);
  expect([typed.carried, typed.split]).toEqual([pool.carried, [[1]]]);
  expect(looks).toBeLessThan(1.1 * inPool);
});
