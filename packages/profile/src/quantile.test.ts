import { expect, test } from "vitest";
import { quantile } from "./index.ts";

test("a quantile is one of the numbers: the least that the share of them doesn't exceed", () => {
  const of = (ascending: ArrayLike<number>) => [0, 0.25, 0.26, 0.5, 0.99, 1].map((q) => quantile(ascending, q));
  expect(of([1, 2, 3, 4])).toEqual([1, 1, 2, 2, 4, 4]);
  expect(of(Float64Array.of(7))).toEqual([7, 7, 7, 7, 7, 7]);
  expect(quantile([], 0.5)).toBeNaN();
});
