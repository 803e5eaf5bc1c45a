import { expect, test } from "vitest";
import { FAILURES_KNOWN_MAX, FailureCounts } from "./failure-counts.ts";

test("failures are counted by job, until the job ends", () => {
  const counts = new FailureCounts();
  expect([counts.note(7), counts.note(8), counts.note(7), counts.of(8), counts.of(9)]).toEqual([1, 1, 2, 1, 0]);
  counts.forget(7);
  expect([counts.of(7), counts.size]).toEqual([0, 1]);
});

test("however many jobs fail, only so many are remembered: those that failed last", () => {
  const counts = new FailureCounts();
  for (let seq = 0; seq < FAILURES_KNOWN_MAX; seq++) counts.note(seq);
  counts.note(0);
  counts.note(FAILURES_KNOWN_MAX);
  expect([counts.size, counts.of(0), counts.of(1), counts.of(2)]).toEqual([FAILURES_KNOWN_MAX, 2, 0, 1]);
});
