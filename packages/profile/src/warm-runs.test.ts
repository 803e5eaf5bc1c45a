import { expect, test } from "vitest";
import { WarmRuns } from "./warm-runs.ts";

test("the first hundred runs of a process and the first ten of each model are cold", () => {
  const runs = new WarmRuns();
  const first = Array.from({ length: 101 }, () => runs.count(1));
  expect(first.indexOf(true)).toBe(100);
  const other = Array.from({ length: 11 }, () => runs.count(2));
  expect(other.indexOf(true)).toBe(10);
});
