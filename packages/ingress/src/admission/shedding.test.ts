import { millis } from "@tutti/units";
import { expect, test } from "vitest";
import { retryAfterMs } from "./shedding.ts";

test("retryAfterMs is as many SLOs as requests come for one that is let in, never 0 and at most ten seconds", () => {
  expect(retryAfterMs(millis(25), 1)).toBe(25);
  expect(retryAfterMs(millis(25), 0.1)).toBe(250);
  expect(retryAfterMs(millis(25), 0)).toBe(10_000);
  expect(retryAfterMs(millis(60_000), 0.5)).toBe(10_000);
  expect(retryAfterMs(millis(0), 1)).toBe(1);
});
