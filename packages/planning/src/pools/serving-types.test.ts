import { expect, test } from "vitest";
import { servingTypes } from "./serving-types.ts";

const serve = (...types: (readonly [tightness: number, capacity: number])[]): readonly boolean[] =>
  servingTypes(types.map(([tightness, capacity]) => ({ tightness, capacity })));

test("types that can't meet the SLO don't serve, and all do if none can", () => {
  expect(serve([0.3, 8], [1.02, 100])).toEqual([true, false]);
  expect(serve([0.9, 8], [1.02, 100])).toEqual([true, false]);
  expect(serve([1.2, 8], [1.02, 100])).toEqual([true, true]);
  expect(serve([1, 1])).toEqual([true]);
});

test("a type that meets the SLO with little room serves unless those with more room carry as much", () => {
  expect(serve([0.24, 8], [0.95, 4])).toEqual([true, false]);
  expect(serve([0.24, 8], [0.95, 9])).toEqual([true, true]);
  expect(serve([0.17, 8], [0.66, 9])).toEqual([true, true]);
  expect(serve([0.2, 4], [0.5, 4], [0.9, 8])).toEqual([true, true, false]);
});
