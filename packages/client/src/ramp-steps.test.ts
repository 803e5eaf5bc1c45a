import { expect, test } from "vitest";
import { rampSteps } from "./ramp-steps.ts";

test("shares grow from small ones to the goal, and shrink the same way back", () => {
  expect(rampSteps(0, 100)).toEqual([1, 2, 5, 10, 25, 50, 75, 100]);
  expect(rampSteps(10, 60)).toEqual([25, 50, 60]);
  expect(rampSteps(100, 0)).toEqual([75, 50, 25, 10, 5, 2, 1, 0]);
  expect(rampSteps(30, 30)).toEqual([30]);
  expect(rampSteps(0, 0.5)).toEqual([0.5]);
});
