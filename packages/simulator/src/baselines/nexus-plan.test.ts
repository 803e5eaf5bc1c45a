import { LatencyTable, perSecond } from "@tutti/profile";
import { millis } from "@tutti/units";
import { expect, test } from "vitest";
import { type Load, type PlannedNode, fillNodes, packSquishy } from "./nexus-plan.ts";

const table = (points: Record<number, number>) =>
  LatencyTable.fromPoints(Object.entries(points).map(([b, l]) => ({ batchSize: Number(b), latency: millis(l) })));
const A = { profile: table({ 4: 50, 8: 75, 16: 100 }), limit: 200_000 };
const B = { profile: table({ 4: 50, 8: 90, 16: 125 }), limit: 250_000 };
const C = { profile: table({ 4: 60, 8: 95, 16: 125 }), limit: 250_000 };
const at = (load: Omit<Load, "rate">, perSec: number): Load => ({ ...load, rate: perSec / 1e6 });
const told = ({ items, dutyCycle }: PlannedNode) => [items.map((one) => [one.load, one.batchSize]), dutyCycle / 1000];

test("the worked example of docs/algorithms.md, C9.1: A and B share an accelerator, C has its own", () => {
  const plan = packSquishy([at(A, 64), at(B, 32), at(C, 32)]);
  expect(plan.map(told)).toEqual([
    [
      [
        [0, 8],
        [1, 4],
      ],
      125,
    ],
    [[[2, 5]], 156.25],
  ]);
  expect(plan[0]!.occupancy).toBeCloseTo(1, 6);
});

test("C9.4: just below saturation a residue takes a whole accelerator", () => {
  const load = { profile: LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 64 }), limit: 60_000 };
  const [under] = packSquishy([at(load, 820)]);
  expect(under!.items[0]!.batchSize).toBe(24);
  expect(under!.occupancy).toBeCloseTo(0.9908, 4);
  expect(packSquishy([at(load, 830)]).map(told)).toEqual([[[[0, 25]], 30]]);
  expect(packSquishy([at(load, 840)]).map(told)).toEqual([
    [[[0, 25]], 30],
    [[[0, 1]], 54],
  ]);
});

test("every node of a plan keeps C10: in time, able to keep up, all of every rate placed", () => {
  const loads = [at(A, 400), at(B, 300), at(C, 200), at(A, 7), at(B, 3), at(C, 0.5)];
  const plan = packSquishy(loads);
  const placed = loads.map(() => 0);
  for (const { dutyCycle, items } of plan) {
    let busy = 0;
    for (const { load, batchSize, rate } of items) {
      const { profile, limit } = loads[load]!;
      placed[load]! += rate;
      busy += profile.latency(batchSize);
      expect(dutyCycle + profile.latency(batchSize)).toBeLessThanOrEqual(limit + 1e-3);
      expect(batchSize).toBeGreaterThanOrEqual(rate * dutyCycle * (1 - 1e-9));
    }
    expect(busy).toBeLessThanOrEqual(dutyCycle + 1e-3);
  }
  for (const [i, { rate }] of loads.entries()) expect(placed[i]! / rate).toBeCloseTo(1, 6);
});

test("a given number of accelerators is filled: Table 2's uncoordinated bound, and all of them used", () => {
  const profile = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
  const plan = fillNodes([{ profile, limit: 25_000, rate: 1 }], 8);
  expect(plan.map(({ items }) => items[0]!.batchSize)).toEqual(Array.from({ length: 8 }, () => 7));
  const total = plan.reduce((sum, { items }) => sum + items[0]!.rate, 0);
  expect(perSecond(total)).toBeCloseTo(4500.5, 0);
  const mixed = fillNodes([at(A, 3), at(B, 2), at(C, 1)], 7);
  expect(mixed).toHaveLength(7);
  expect(new Set(mixed.flatMap(({ items }) => items.map(({ load }) => load)))).toEqual(new Set([0, 1, 2]));
});

test("more loads than fit one accelerator are there nevertheless", () => {
  const plan = fillNodes(
    Array.from({ length: 9 }, () => at(A, 1)),
    1,
  );
  expect(plan).toHaveLength(1);
  expect(plan[0]!.items.map(({ load }) => load).toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});
