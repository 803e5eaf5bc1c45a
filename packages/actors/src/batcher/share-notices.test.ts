import { type ModelSpec, SHARE_CLASSES_MAX } from "@tutti/protocol";
import { fnv1a } from "@tutti/wire";
import { expect, test } from "vitest";
import { areShares } from "../ingress/shedding.ts";
import { isShedReport, shareRulesOf } from "./share-notices.ts";

test("weights are found by the number of the application, and those of a model without any are left out", () => {
  const rules = shareRulesOf({ shares: { camera: 3, "*": 2 }, priorityFloor: 0.2 });
  expect([...rules.weights!]).toEqual([[fnv1a("camera"), 3]]);
  expect(rules).toMatchObject({ otherWeight: 2, priorityFloor: 0.2 });
  expect(shareRulesOf({})).toEqual({});
});

test("weights that can't be read are as good as none: the store can hold anything (T8)", () => {
  for (const shares of [7, { a: -1 }, { a: "x" }, { "a b": 1 }])
    expect(shareRulesOf({ shares, priorityFloor: 3 } as unknown as ModelSpec)).toEqual({});
});

test("shares and reports beyond their bounds, or of another form, are dropped (T7, T8)", () => {
  const told = (classes: unknown): object => ({ thread: 64, term: 3, classes });
  const many = (one: object, count: number): object[] => Array.from({ length: count }, () => one);
  const share = { app: 5, priority: 0, keep: 0.1 };
  const shed = { app: 5, priority: 0, count: 9 };
  expect(areShares(told(many(share, SHARE_CLASSES_MAX)))).toBe(true);
  expect(areShares(told(many(share, SHARE_CLASSES_MAX + 1)))).toBe(false);
  expect(isShedReport(told(many(shed, SHARE_CLASSES_MAX)))).toBe(true);
  expect(isShedReport(told(many(shed, SHARE_CLASSES_MAX + 1)))).toBe(false);
  for (const bad of [
    { ...share, keep: 2 },
    { ...share, keep: NaN },
    { ...share, app: 0.5 },
    { ...share, priority: 256 },
    null,
    7,
  ])
    expect(areShares(told([bad]))).toBe(false);
  for (const bad of [
    { ...shed, count: 0 },
    { ...shed, count: 1e12 },
    { ...shed, app: -1 },
    { ...shed, priority: -1 },
    null,
    7,
  ])
    expect(isShedReport(told([bad]))).toBe(false);
  expect(areShares({ thread: -1, term: 1, classes: [] })).toBe(false);
  expect(isShedReport({ thread: 1, term: 1, classes: 7 })).toBe(false);
});
