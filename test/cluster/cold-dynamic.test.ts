/**
 * A model without measured run times, under load from the start. The load can only be carried by knowing its lengths:
 * docs/algorithms.md, B9 and B12.
 */
import { type Instant, Prng, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

/** Pace of the model. A request of n units takes 1 + 0.6·n ms in isolation, and sixteen of them twice that. */
const PACE = { fixedMs: 1, unitMs: 0.56, rowUnitMs: 0.04, max: 512, typical: 96 };
const APPS = [
  { app: "chat", share: 0.6, from: 16, to: 32 },
  { app: "mail", share: 0.25, from: 96, to: 160 },
  { app: "reports", share: 0.15, from: 320, to: 480 },
];
const SLO_MS = 1_200;
/** Requests per second. Batches of 16 similar requests could carry 100 (1/Σ share·l/16), batches as they come 30. */
const RATE = 80;

/** Seeds of the load. What a cold model measures first decides much, so one seed says little. */
const SEEDS = [7, 1, 2];

/** The share in time, by five seconds: the mean of the seeds. */
function inTimeBySlot(options: VirtualClusterOptions, duration: number): number[] {
  const runs = SEEDS.map((seed) => inTimeOf(seed, options, duration));
  return runs[0]!.map((_, slot) => mean(runs.map((shares) => shares[slot]!)));
}

function inTimeOf(seed: number, options: VirtualClusterOptions, duration: number): number[] {
  const cluster = new VirtualCluster({ gpus: 1, policy: { kind: "adaptive" }, ...options });
  cluster.addModel({ name: "loop", alphaMs: 3.84, betaMs: 54.8, sloMs: SLO_MS, batchSizeMax: 16, pace: PACE });
  cluster.run(seconds(4));
  const prng = new Prng(seed);
  const begin = cluster.clock.now();
  const slots: Asked[][] = [];
  for (let at = prng.nextExponential(RATE); at < duration; at += prng.nextExponential(RATE)) {
    cluster.clock.advanceTo(Math.round(begin + at * 1e6) as Instant);
    let left = prng.nextFloat();
    const { app, from, to } = APPS.find(({ share }) => (left -= share) < 0) ?? APPS[0]!;
    const units = from + prng.nextInt(to - from + 1);
    (slots[Math.floor(at / 5)] ??= []).push(cluster.ask("loop", { sloMs: SLO_MS, app, value: units, units }));
  }
  cluster.run(seconds(3));
  return slots.map((asked) => {
    expect(asked.filter(({ outcomes }) => outcomes.length !== 1)).toEqual([]); // T1
    const good = asked.filter(({ outcomes, deadline }) => outcomes[0]!.status === "ok" && outcomes[0]!.at <= deadline);
    return good.length / asked.length;
  });
}

const mean = (rates: readonly number[]): number => rates.reduce((sum, rate) => sum + rate, 0) / rates.length;

test("with size hints a cold model is known after 40 s though its accelerator was never idle; by means it stays overloaded", () => {
  const hints = inTimeBySlot({ latency: "hints" }, 55);
  const means = inTimeBySlot({ latency: "means" }, 50);
  expect(mean(hints.slice(0, 2))).toBeLessThan(0.5);
  expect(mean(hints.slice(-3))).toBeGreaterThan(0.85);
  expect(mean(hints.slice(-3))).toBeGreaterThan(mean(means.slice(-3)) + 0.3);
});
