import { LatencyTable } from "@tutti/profile";
import { type Instant, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type Noise, NoiseSource, plannedRun } from "./noise.ts";
import { simulate } from "../run.ts";
import type { Scenario } from "./scenario.ts";

const at = (us: number): Instant => us as Instant;
const recorded = (scope: "machine" | "accelerator"): Noise => ({
  stalls: [{ kind: "recorded", scope, length: seconds(1), stalls: [{ at: millis(100), length: millis(10) }] }],
});
/** Where the recording's stall is first seen, which the seed decides. */
function firstStall(source: NoiseSource): number {
  for (let begin = 0; ; begin += 1_000) if (source.runTime(0, at(begin), millis(1)) > 1_000) return begin;
}

test("a run that a standstill falls into takes so much longer, and stalls come again with the recording", () => {
  const source = new NoiseSource(recorded("machine"), { seed: 1, gpus: 2 });
  const first = firstStall(source);
  expect(source.runTime(0, at(first - 5_000), millis(20))).toBe(30_000);
  expect(source.runTime(1, at(first + 995_000), millis(20))).toBe(30_000); // 1 s later, and on any accelerator
  expect(source.runTime(0, at(first + 20_000), millis(20))).toBe(20_000);
});

test("what comes while the machine stands is heard at the end; stalls of one accelerator delay nobody else", () => {
  const machine = new NoiseSource(recorded("machine"), { seed: 1, gpus: 1 });
  const begin = firstStall(machine) + 2_000;
  expect(machine.heardAt(at(begin)) - begin).toBeGreaterThan(7_000);
  expect(machine.heardAt(at(begin + 20_000))).toBe(begin + 20_000);
  const single = new NoiseSource(recorded("accelerator"), { seed: 1, gpus: 1 });
  expect(single.heardAt(at(firstStall(single) + 2_000))).toBe(firstStall(single) + 2_000);
});

test("drawn standstills have the gaps and the lengths that were asked for, the same for each seed", () => {
  const stalls = [{ kind: "drawn", scope: "machine", every: millis(100), median: millis(1), p99: millis(10) }] as const;
  const lost = (seed: number): number => {
    const source = new NoiseSource({ stalls }, { seed, gpus: 1 });
    return source.runTime(0, at(0), seconds(100)) - seconds(100);
  };
  // 1,000 stalls with a mean of exp(σ²/2) = 1.63 ms, σ = ln 10 / 2.326.
  expect(lost(1)).toBeGreaterThan(1_400_000);
  expect(lost(1)).toBeLessThan(1_900_000);
  expect(lost(1)).toBe(lost(1));
  expect(lost(2)).not.toBe(lost(1));
});

test("slow runs: drawn ones by share and factor, recorded ones by the stretches that they fall into; plans know the 99th percentile", () => {
  const drawn: Noise = { stalls: [], slow: { kind: "drawn", share: 0.1, factor: 3 } };
  const source = new NoiseSource(drawn, { seed: 1, gpus: 1 });
  const times = Array.from({ length: 10_000 }, (_, i) => source.runTime(0, at(10_000 * i), millis(1)));
  expect(times.filter((time) => time > 1_000).length / times.length).toBeCloseTo(0.1, 1);
  expect(Math.max(...times)).toBeLessThanOrEqual(3_000);
  expect(plannedRun(drawn, millis(1))).toBe(2_800);

  const slow = { kind: "recorded", every: millis(5), factors: [1, 1, 1, 2] } as const;
  const track = new NoiseSource({ stalls: [], slow }, { seed: 1, gpus: 1 });
  expect(track.runTime(0, at(0), micros(17_500))).toBe(20_000); // three stretches, and half of the work in the slow one
  expect(plannedRun({ stalls: [], slow }, millis(5))).toBe(10_000);
  expect(plannedRun({ stalls: [], slow }, millis(20))).toBe(25_000);
});

const scenario: Scenario = {
  ...{ seed: 1, duration: seconds(11), warmup: seconds(1), gpus: 8, policy: "default", gather: "target", rate: 3_500 },
  arrivals: { process: "poisson" },
  network: { ctrl: micros(0), data: micros(0), respond: micros(0), jitter: 0 },
  models: [
    {
      ...{ name: "m", slo: millis(25), classes: [], share: 1 },
      profile: LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 }),
    },
  ],
  phases: [],
  noise: {
    stalls: [{ kind: "drawn", scope: "machine", every: millis(250), median: millis(2), p99: millis(10) }],
  },
};

test("a noisy scenario gives the same result each time, and the default loses less by noise than eager and deferred dispatch", () => {
  const badRate = (policy: string): number => simulate({ ...scenario, policy }).badRate;
  expect(simulate(scenario)).toEqual(simulate(scenario));
  expect(badRate("default")).toBeLessThan(0.01);
  expect(badRate("default")).toBeLessThan(0.5 * badRate("eager"));
  expect(badRate("default")).toBeLessThan(badRate("default:accelerators"));
});
