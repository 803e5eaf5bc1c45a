/**
 * docs/algorithms.md, C9.8; Nexus, Figure 9: early drop against lazy drop on one accelerator, SLO 100 ms, at best 500
 * r/s.
 */
import { LatencyTable } from "@tutti/profile";
import { type Micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { goodput } from "../goodput.ts";
import { simulate, simulateDetailed } from "../run.ts";
import type { Arrivals, Scenario } from "../scenario/scenario.ts";

/** 25·α + β = 50 ms: batches of 25 just fit twice. */
function setting(alphaMs: number, policy: string, more: Partial<Scenario> = {}): Scenario {
  const betaMs = 50 - 25 * alphaMs;
  const profile = LatencyTable.affine({ alpha: alphaMs * 1000, beta: betaMs * 1000, batchSizeMax: 64 });
  return {
    seed: 1,
    duration: seconds(61),
    warmup: seconds(1),
    gpus: 1,
    policy,
    gather: "target",
    rate: 450,
    arrivals: { process: "poisson" },
    network: { ctrl: 0 as Micros, data: 0 as Micros, respond: 0 as Micros, jitter: 0 },
    models: [{ name: "m", profile, slo: millis(100), classes: [], share: 1 }],
    phases: [],
    ...more,
  };
}
const badRate = (alphaMs: number, policy: string, arrivals?: Arrivals): number =>
  simulate(setting(alphaMs, policy, arrivals && { arrivals })).badRate;

test.each([
  [1, 0.74, 0.017],
  [1.4, 0.67, 0.01],
  [1.8, 0.027, 0.003],
])("α = %d at 450 r/s: lazy drop collapses where early drop does not", (alphaMs, lazy, early) => {
  // One draw of a minute: lazy drop's collapse is abrupt, what early drop loses is a handful of bursts.
  expect(badRate(alphaMs, "nexus:lazy")).toBeGreaterThan(0.8 * lazy - 0.01);
  expect(badRate(alphaMs, "nexus:lazy")).toBeLessThan(1.2 * lazy + 0.01);
  expect(badRate(alphaMs, "nexus")).toBeLessThan(1.6 * early + 0.002);
  expect(badRate(alphaMs, "nexus", { process: "uniform" })).toBe(0);
  expect(badRate(alphaMs, "nexus:lazy", { process: "uniform" })).toBe(0);
});

test.each([
  [1, 373, 434],
  [1.4, 394, 451],
  [1.8, 440, 470],
])("α = %d: one request in a hundred is bad at the rates of the worked example", async (alphaMs, lazy, early) => {
  const evaluate = (scenario: Scenario) => Promise.resolve(simulateDetailed(scenario));
  const meanRate = async (policy: string): Promise<number> => {
    let sum = 0;
    for (const seed of [1, 2, 3])
      sum += (await goodput(setting(alphaMs, policy, { seed }), evaluate, { precision: 0.005 })).goodputRps;
    return sum / 3;
  };
  expect(Math.abs((await meanRate("nexus")) / early - 1)).toBeLessThan(0.03);
  // Lazy drop's rate depends on the one largest burst of a minute: draws differ by more than the given ± 2 %.
  expect(Math.abs((await meanRate("nexus:lazy")) / lazy - 1)).toBeLessThan(0.07);
});
