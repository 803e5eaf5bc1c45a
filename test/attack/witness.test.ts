import { expect, test } from "vitest";
import { MEMORY_BYTES } from "./attack.ts";
import { HEALTH_MS, type WitnessReport, breachesOf } from "./witness.ts";

const calm: WitnessReport = {
  probes: 9,
  healthMsMax: HEALTH_MS.long,
  asked: 4,
  failed: [],
  grownBytesMax: MEMORY_BYTES,
};

test("what a witness may see at most is no breach, and a little more of each is one", () => {
  expect(breachesOf(calm, "long")).toEqual([]);
  expect(breachesOf({ ...calm, healthMsMax: HEALTH_MS.long + 1 }, "long")[0]).toContain("health probe");
  expect(breachesOf({ ...calm, failed: ["503"] }, "long")[0]).toContain("503");
  expect(breachesOf({ ...calm, grownBytesMax: MEMORY_BYTES + 1 }, "long")[0]).toContain("grew");
  expect(breachesOf(calm, "long", 1_048_576)[0]).toContain("not 1 MB");
});
