import { expect, test } from "vitest";
import { SHARES_MAX, SHARE_WEIGHT_MAX, sharesProblem } from "./shares.ts";

test("weights by application are taken, and whatever else is given is told what is wrong with it", () => {
  expect(sharesProblem({ camera: 3, "ocr-rec": 0.5, "*": 1 })).toBeUndefined();
  expect(sharesProblem({})).toBeUndefined();
  for (const bad of [undefined, null, 3, "camera=3", [1, 2]])
    expect(sharesProblem(bad)).toMatch(/weights by application/);
  for (const weight of [0, -1, NaN, Infinity, 2 * SHARE_WEIGHT_MAX, "3", null])
    expect(sharesProblem({ camera: weight })).toMatch(/the weight of 'camera'/);
  expect(sharesProblem({ "a.b": 1 })).toMatch(/'a.b' is no name/);
});

test("at most 256 applications can be named, and no weight is above a million", () => {
  const named = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`app${i}`, 1]));
  expect(sharesProblem(named(SHARES_MAX))).toBeUndefined();
  expect(sharesProblem(named(SHARES_MAX + 1))).toMatch(/at most 256/);
  expect(sharesProblem({ a: SHARE_WEIGHT_MAX })).toBeUndefined();
});
