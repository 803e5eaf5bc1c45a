import type { Cluster, DispatchedBatch } from "@tutti/scheduling";
import { type Instant, type Micros, micros, millis, seconds } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decisionLines } from "../results/decision-log.ts";
import { simulate } from "../run.ts";
import { type Noise, NoiseSource } from "../scenario/noise.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { LearnedPlans } from "./learned-plans.ts";
import { RESNET50, model, smallScenario } from "../testing/small-scenario.ts";

const LEARNED = { given: 1 };
/** The delays of a running cluster. */
const live = (changes: Partial<Scenario> = {}): Scenario =>
  smallScenario({
    network: { ctrl: micros(600), data: 5 as Micros, respond: micros(700), jitter: 0 },
    models: [model("resnet50", 1, { slo: millis(23), runs: RESNET50 })],
    rate: 4200,
    policy: "default",
    ...changes,
  });
const stalls = (scope: "machine" | "scheduler"): Noise => ({
  stalls: [{ kind: "drawn", scope, every: millis(200), median: millis(2), p99: millis(5) }],
});
const logOf = (scenario: Scenario): string => [...decisionLines(scenario)].join("\n");

test("where runs and delays are as given, learning changes no decision", () => {
  // Policies whose plans never start later than an executor could: it doesn't wait for a planned start.
  const policies = ["deferred", "deferred:head", "eager"];
  fc.assert(
    fc.property(
      fc.constantFrom(...policies),
      fc.integer({ min: 1, max: 1_000 }),
      fc.constantFrom(200, 2_000, 4_500, 5_500),
      (policy, seed, rate) => {
        const scenario = live({ policy, seed, rate, duration: micros(3_400_000) });
        expect(logOf({ ...scenario, learned: LEARNED })).toBe(logOf(scenario));
      },
    ),
    { numRuns: 12 },
  );
});

test("equal seeds give equal decision logs, with every kind of noise and with jitter", () => {
  const network = { ctrl: micros(600), data: 20 as Micros, respond: micros(700), jitter: 0.3 };
  const noise: Noise = {
    ...stalls("machine"),
    slow: { kind: "drawn", share: 0.1, factor: 2 },
    cold: { factor: 2, until: seconds(1) },
  };
  const scenario = live({ network, noise, learned: { given: 1.5 }, duration: seconds(4) });
  expect(logOf(scenario)).toBe(logOf(scenario));
  expect(logOf(scenario)).not.toBe(logOf({ ...scenario, seed: 2 }));
});

test("what was learned wins over a given profile that is wrong by half, either way", () => {
  const counted = live({ duration: seconds(24), warmup: seconds(15) });
  const right = simulate(counted);
  for (const given of [0.5, 1.5]) {
    const { badRate, batchSize } = simulate({ ...counted, learned: { given } });
    expect(badRate).toBeLessThan(0.005);
    expect(batchSize.mean).toBeGreaterThan(0.95 * right.batchSize.mean);
  }
  // The loss until then shows that plans were made with it.
  const first = { ...counted, duration: seconds(1), warmup: 0 as Micros };
  expect(simulate({ ...first, learned: { given: 2.2 } }).badRate).toBeGreaterThan(0.1);
});

test("delays that vary are planned with as they were measured, which is less than their longest", () => {
  const network = { ctrl: millis(4), data: 0 as Micros, respond: 0 as Micros, jitter: 0.9 };
  const changes = { network, policy: "latest", rate: 1_000, duration: seconds(5), warmup: seconds(2) };
  const p50 = (scenario: Scenario): number => simulate(scenario).models[0]!.p50Ms!;
  expect(p50(live({ ...changes, learned: LEARNED }))).not.toBe(p50(live(changes)));
});

test("the guard is what alarms are late by, at most half a millisecond (LEARN-4)", () => {
  const guards = (length: number): number[] => {
    const options = { models: [model("resnet50", 1)], gpus: 1, network: live().network, seed: 1 };
    const each = { kind: "recorded", scope: "scheduler", length: millis(10) } as const;
    const noise = new NoiseSource(
      { stalls: [{ ...each, stalls: [{ at: millis(5), length: micros(length) }] }] },
      options,
    );
    const plans = new LearnedPlans(options, 1, noise);
    for (let ms = 0; ms < 5_000; ms++) {
      const startAt = (1_000 * ms + ((37 * ms) % 1_000)) as Instant;
      plans.startDelay({ startAt, grant: { gpu: 0, sentAt: startAt }, requests: [] } as unknown as DispatchedBatch);
    }
    const told: number[] = [];
    const change = (_: number, event: { readonly guard?: number }): void => void told.push(event.guard!);
    plans.look({ runBefore: () => seconds(5), change } as unknown as Cluster);
    return told;
  };
  expect(guards(200)[0]! / 200).toBeGreaterThan(0.9);
  expect(guards(200)[0]! / 200).toBeLessThan(1.05);
  expect(guards(2_000)).toEqual([500]);
});
