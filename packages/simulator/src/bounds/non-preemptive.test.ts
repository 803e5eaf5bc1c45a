import { LatencyTable } from "@tutti/profile";
import { type Micros, micros, millis, seconds } from "@tutti/units";
import { describe, expect, test } from "vitest";
import { BAD_RATE_MAX, boundOf } from "./bounds.ts";
import { nonPreemptiveRate } from "./non-preemptive.ts";
import { policyNames } from "../cluster/policies.ts";
import { randomMix } from "../scenario/random-mix.ts";
import { simulateDetailed } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";

const resnet = {
  name: "ResNet50",
  profile: LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 }),
  ...{ slo: millis(25), classes: [], share: 1 },
};
const scenario: Scenario = {
  ...{ seed: 1, duration: seconds(4), warmup: seconds(1), gpus: 8, policy: "default", gather: "target", rate: 1000 },
  arrivals: { process: "poisson" },
  network: { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 },
  ...{ models: [resnet], phases: [] },
};

/** Mixes with bursts on few accelerators, where the bound is well below the clairvoyant one, and others. */
const MIXES = [10, 13, 29, 41, 44, 5].map((seed) => {
  const mix: Scenario = { ...randomMix(seed), duration: seconds(10) };
  const { clairvoyantRps } = boundOf(mix);
  return { seed, mix, clairvoyantRps, boundRps: nonPreemptiveRate(mix, clairvoyantRps) };
});

// Models of input-dependent length need lengths, which these mixes don't have.
const POLICIES = policyNames()
  .filter((policy) => policy !== "knows-lengths")
  .map((policy) => (policy === "timeout" ? "timeout:20%" : policy));

describe.each(MIXES)("on mix $seed", ({ mix, boundRps, clairvoyantRps }) => {
  test("the bound is at most the clairvoyant one", () => {
    expect(boundRps).toBeGreaterThan(0);
    expect(boundRps).toBeLessThanOrEqual(clairvoyantRps);
  });

  test.each(POLICIES)("%s is bad at 1.01 times the bound and above", (policy) => {
    for (const times of [1.01, 1.1, 1.4]) {
      const { streams } = simulateDetailed({ ...mix, policy, rate: times * boundRps });
      expect(streams.some(({ offered, bad }) => bad > BAD_RATE_MAX * offered)).toBe(true);
    }
  });
});

test("bursts on few accelerators lower the bound to two thirds and less of the clairvoyant one (NONP-1)", () => {
  const lower = MIXES.filter(({ seed }) => [10, 13, 41].includes(seed));
  expect(lower.map(({ boundRps, clairvoyantRps }) => boundRps < 0.67 * clairvoyantRps)).toEqual([true, true, true]);
});

test("for one model with Poisson arrivals on many accelerators it is the clairvoyant bound", () => {
  const { clairvoyantRps } = boundOf(scenario);
  expect(nonPreemptiveRate(scenario, clairvoyantRps)).toBe(clairvoyantRps);
});

// Runs of 6 ms and an SLO of 7 ms: one of the requests that come within a millisecond is served. The clairvoyant bound
// has unlimited accelerators for a burst.
test("one accelerator that a run occupies can't serve what comes and must end meanwhile", () => {
  const alone = { ...resnet, profile: LatencyTable.affine({ alpha: 5_000, beta: 1_000, batchSizeMax: 1 }) };
  const models = [{ ...alone, slo: 7_000 as Micros }];
  const one: Scenario = { ...scenario, gpus: 1, models, arrivals: { process: "gamma", shape: 0.1 } };
  const { clairvoyantRps } = boundOf(one);
  expect(clairvoyantRps).toBeGreaterThan(100);
  expect(nonPreemptiveRate(one, clairvoyantRps)).toBeLessThan(0.2 * clairvoyantRps);
});

test("requests before the warm-up may all be lost, so they count for nothing (NONP-3)", () => {
  const mix: Scenario = { ...MIXES[1]!.mix, warmup: seconds(9.99) };
  const { clairvoyantRps } = boundOf(mix);
  expect(nonPreemptiveRate(mix, clairvoyantRps)).toBeGreaterThanOrEqual(MIXES[1]!.boundRps);
});

test.each<[string, Partial<Scenario>]>([
  ["several SLOs of one model", { models: [{ ...resnet, classes: [{ slo: millis(100), share: 0.5 }] }] }],
  ["a trace", { arrivals: { process: "trace", entries: [] } }],
])("where runs or orders are not covered, it is the clairvoyant bound: %s", (_, more) => {
  expect(nonPreemptiveRate({ ...scenario, ...more }, 1234)).toBe(1234);
});
