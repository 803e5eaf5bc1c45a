import { expect, test } from "vitest";
import { JOBS_IN_FLIGHT_MAX, jobWindow } from "./job-window.ts";

test("the largest batches of all accelerators are filled twice, however many accelerators there are", () => {
  expect(jobWindow(16, 2)).toBe(64);
  expect(jobWindow(16, 0)).toBe(32); // executors are just being started
  expect(jobWindow(1_024, 100)).toBe(JOBS_IN_FLIGHT_MAX);
  expect(jobWindow(undefined, 100)).toBe(8);
});
