import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { WarmRuns } from "./warm-runs.ts";

const at = (ms: number) => (1_790_000_000_000_000 + 1_000 * ms) as Instant;

test("the first hundred runs of a process and the first ten of each model are cold", () => {
  const runs = new WarmRuns();
  const first = Array.from({ length: 101 }, (_, i) => runs.count(1, at(i)));
  expect(first.indexOf(true)).toBe(100);
  const other = Array.from({ length: 11 }, (_, i) => runs.count(2, at(200 + i)));
  expect(other.indexOf(true)).toBe(10);
});

test("where runs are long or rare nothing is cold after ten seconds", () => {
  const runs = new WarmRuns();
  const rare = Array.from({ length: 5 }, (_, i) => runs.count(1, at(5_000 * i)));
  expect(rare).toEqual([false, false, false, true, true]);
});
