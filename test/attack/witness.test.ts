import { expect, test } from "vitest";
import { MEMORY_BYTES } from "./attack.ts";
import { HEALTH_MS, type WitnessReport, breachesOf } from "./witness.ts";

const calm: WitnessReport = { probes: 9, healthMsMax: HEALTH_MS, asked: 4, failed: [], grownBytesMax: MEMORY_BYTES };

test("what a witness may see at most is no breach, and a little more of each is one", () => {
  expect(breachesOf(calm)).toEqual([]);
  expect(breachesOf({ ...calm, healthMsMax: HEALTH_MS + 1 })[0]).toContain("health probe");
  expect(breachesOf({ ...calm, failed: ["503"] })[0]).toContain("503");
  expect(breachesOf({ ...calm, grownBytesMax: MEMORY_BYTES + 1 })[0]).toContain("grew");
  expect(breachesOf(calm, 1_048_576)[0]).toContain("not 1 MB");
});
