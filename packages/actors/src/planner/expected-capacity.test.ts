import { LatencyTable } from "@tutti/profile";
import { gpuId, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { CapacityEstimate } from "./expected-capacity.ts";
import type { MeasuredModel } from "./measured-models.ts";

const profile = LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 8 });
function measured(number: number, rate: number): MeasuredModel {
  const load = { rate, latestRate: rate, ok: rate, bad: 0, infeasible: 0 };
  const shares = [{ share: rate, slo: millis(100), profile }];
  return {
    number,
    name: `m${number}`,
    rate,
    work: rate,
    memoryBytes: 0,
    dynamicBytes: 0,
    sloMs: 100,
    workMs: 0,
    load,
    shares,
  };
}
const planned = (count: number, subCluster: (number: number) => string) => ({
  models: Array.from({ length: count }, (_, i) => ({ number: i + 1, subCluster: subCluster(i + 1) })),
  loads: ["main", "b"].map((name) => ({
    ...{ subCluster: name, models: 0, rate: 0, work: 0, memoryBytes: 0, dynamicBytes: 0, gpus: 2, gpusIdeal: 2 },
    key: gpuId(0),
  })),
});
const isPoisson = (): number => 1;
const expectedCapacity = (
  models: readonly MeasuredModel[],
  plan: ReturnType<typeof planned>,
  dispersionOf: (number: number) => number | undefined,
  executors: ConstructorParameters<typeof CapacityEstimate>[2],
) => new CapacityEstimate(models, dispersionOf, executors).ofPlan(plan);

test("a sub-cluster without requests carries nothing that could be told, and the other one isn't divided", () => {
  const { bySubCluster, undividedRps } = expectedCapacity(
    [measured(1, 10), measured(2, 0)],
    planned(2, (n) => (n === 1 ? "main" : "b")),
    isPoisson,
    [],
  );
  expect(bySubCluster.get("main")?.carriedRps).toBeGreaterThan(500);
  expect([bySubCluster.get("b"), undividedRps]).toEqual([{}, undefined]);
});

test("bursts leave less to carry", () => {
  const carriedAt = (dispersion: number): number =>
    expectedCapacity(
      [measured(1, 10)],
      planned(1, () => "main"),
      () => dispersion,
      [],
    ).bySubCluster.get("main")!.carriedRps!;
  expect(carriedAt(10)).toBeLessThan(0.9 * carriedAt(1));
});

test("of more models than are looked at nothing is expected", () => {
  const at = (count: number) =>
    expectedCapacity(
      Array.from({ length: count }, (_, i) => measured(i + 1, 1)),
      planned(count, (n) => (n % 2 === 0 ? "main" : "b")),
      isPoisson,
      [],
    );
  expect(at(256).undividedRps).toBeGreaterThan(0);
  expect(at(257)).toEqual({ bySubCluster: new Map(), undividedRps: undefined });
});

const executors = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ gpus: [gpuId(i)], memoryBytesMax: Infinity }));

test("a division is expected to carry what its fullest part carries, with models and accelerators as even as they go", () => {
  const models = [1, 2, 3, 4].map((number) => measured(number, 10));
  const estimate = new CapacityEstimate(models, isPoisson, []);
  const halves = estimate.ofDivision(2, executors(4), 1)!;
  expect(halves.undividedRps).toBeCloseTo(40 * estimate.timesOf([1, 2, 3, 4], 4)!, 9);
  expect(halves.dividedRps).toBeCloseTo(40 * estimate.timesOf([1, 2], 2)!, 9);
  // More than there are models or accelerators can't be used.
  expect(estimate.ofDivision(9, executors(4), 1)).toEqual(estimate.ofDivision(4, executors(4), 1));
  expect(estimate.ofDivision(9, executors(2), 1)).toEqual(estimate.ofDivision(2, executors(2), 1));
  expect(new CapacityEstimate([], isPoisson, []).ofDivision(2, executors(2), 1)).toBeUndefined();
});

test("types of executors count with their own latencies, and those that don't serve a model not at all", () => {
  const executor = (gpu: number, type: string) => ({ gpus: [gpuId(gpu)], type, subCluster: "main" });
  const slower = LatencyTable.affine({ alpha: 4_000, beta: 20_000, batchSizeMax: 8 });
  const apart = (slow: LatencyTable | undefined): MeasuredModel => {
    const one = measured(1, 10);
    const byType = new Map([
      ["fast", profile],
      ["slow", slow],
    ]);
    return { ...one, shares: one.shares.map((share) => ({ ...share, profile: slower, byType })) };
  };
  const carried = (model: MeasuredModel, ...executors: ReturnType<typeof executor>[]): number => {
    const plan = planned(1, () => "main");
    return expectedCapacity([model], plan, isPoisson, executors).bySubCluster.get("main")!.carriedRps!;
  };
  const alike = carried(measured(1, 10), executor(0, "fast"), executor(1, "fast"));
  const both = carried(apart(slower), executor(0, "fast"), executor(1, "slow"));
  const one = carried(apart(undefined), executor(0, "fast"), executor(1, "slow"));
  expect(one).toBeLessThan(0.5 * alike);
  expect(both).toBeGreaterThan(1.1 * one);
  expect(both).toBeLessThan(0.65 * alike);
});

test("accelerators of unlike types whose latencies are measured apart are told to cost more", () => {
  const byType = new Map([
    ["fast", profile],
    ["slow", profile],
  ]);
  const apart = { ...measured(1, 10), shares: [{ ...measured(1, 10).shares[0]!, byType }] };
  const of = (model: MeasuredModel, ...types: string[]): number => {
    const executors = types.map((type, i) => ({ type, gpus: [gpuId(i)], subCluster: "main" }));
    return new CapacityEstimate([model], isPoisson, executors).cost;
  };
  expect([of(measured(1, 10), "fast", "slow"), of(apart, "fast", "fast"), of(apart, "fast", "slow")]).toEqual([
    1, 1, 4,
  ]);
});
