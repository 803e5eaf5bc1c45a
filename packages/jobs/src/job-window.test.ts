import { expect, test } from "vitest";
import { JOBS_IN_FLIGHT_MAX, jobWindow } from "./job-window.ts";

test("the largest batches of all accelerators are filled twice, however many accelerators there are", () => {
  expect(jobWindow(16, 2, 1)).toBe(64);
  expect(jobWindow(16, 0, 1)).toBe(32); // executors are just being started
  expect(jobWindow(1_024, 100, 1)).toBe(JOBS_IN_FLIGHT_MAX);
  expect(jobWindow(undefined, 100, 1)).toBe(8);
});

test("runners divide the window, and each has a part of it", () => {
  expect([jobWindow(16, 2, 2), jobWindow(16, 2, 3), jobWindow(1, 1, 100)]).toEqual([32, 22, 1]);
});
