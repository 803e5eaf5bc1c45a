import { LatencyTable } from "@tutti/profile";
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { simulate } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { QUIET } from "./testing/recorded-run.ts";

/** Table 2 of Symphony v2, 8 accelerators. */
function badRate(policy: string, rate: number, which: "ResNet50" | "InceptionResNetV2" = "ResNet50"): number {
  const line = which === "ResNet50" ? { alpha: 1053, beta: 5072 } : { alpha: 5090, beta: 18_368 };
  const profile = LatencyTable.affine({ ...line, batchSizeMax: 64 });
  const model = { name: which, profile, slo: millis(which === "ResNet50" ? 25 : 70), classes: [], share: 1 };
  const scenario: Scenario = {
    ...{ seed: 3, duration: seconds(5), warmup: seconds(1), gpus: 8, policy, gather: "target", rate },
    ...{ arrivals: { process: "poisson" }, network: QUIET, models: [model], phases: [] },
  };
  return simulate(scenario).badRate;
}

test("capped without a parameter loses as little as with the best of all caps; smaller and larger ones lose more", () => {
  const caps = Array.from({ length: 18 }, (_, i) => badRate(`capped:${i + 1}`, 4_800));
  const best = badRate("capped", 4_800);
  expect(best).toBe(Math.min(...caps));
  expect(caps[5]).toBeGreaterThan(10 * best);
  expect(caps[17]).toBeGreaterThan(10 * best);
});

test("one Nexus frontend carries on Table 2 what Symphony's authors measured, within a tenth", () => {
  expect(badRate("nexus", 0.9 * 4027)).toBeLessThan(0.01);
  expect(badRate("nexus", 1.1 * 4027)).toBeGreaterThan(0.01);
  expect(badRate("nexus", 0.9 * 618, "InceptionResNetV2")).toBeLessThan(0.01);
  expect(badRate("nexus", 1.1 * 618, "InceptionResNetV2")).toBeGreaterThan(0.01);
});

test("on Table 2 Shepherd loses less than Nexus, as measured there, and eight frontends lose more than one", () => {
  const [shepherd, one, eight] = ["shepherd", "nexus", "nexus:8"].map((policy) => badRate(policy, 4445));
  expect(shepherd).toBeLessThan(0.01);
  expect(one).toBeGreaterThan(0.01);
  expect(eight).toBeGreaterThan(one!);
});

test("when overloaded, early drop and the largest batch first keep a flat top; deadline-first collapses to batches of one", () => {
  const capacityLost = (policy: string) => badRate(policy, 9000);
  const ideal = 1 - 5839 / 9000;
  expect(capacityLost("nexus")).toBeLessThan(1 - 4400 / 9000);
  expect(capacityLost("triton")).toBeLessThan(1 - 4400 / 9000);
  expect(capacityLost("shepherd")).toBeLessThan(ideal + 0.05);
  // 8 batches of one in 6.125 ms: 1,306 requests per second; the authors measured 1,358.
  expect(capacityLost("clockwork")).toBeCloseTo(1 - 1306 / 9000, 1);
});
