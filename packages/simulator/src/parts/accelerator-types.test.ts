import { LatencyTable } from "@tutti/profile";
import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type RunListener, simulate } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";

const profile = LatencyTable.affine({ alpha: 263, beta: 1_268, batchSizeMax: 64 });
const types = [
  { name: "fast", gpus: 2, times: 1 },
  { name: "slow", gpus: 4, times: 4 },
];
const unlike = (changes: Partial<Scenario> = {}): Scenario =>
  smallScenario({
    ...{ models: [model("m", 1, { profile, slo: millis(25) })], gpus: 6, types, policy: "default" },
    ...{ duration: seconds(11), warmup: seconds(1) },
    ...changes,
  });
const badAt = (rate: number, changes: Partial<Scenario> = {}): number => simulate(unlike({ ...changes, rate })).badRate;

test("every batch takes what its accelerator does, and faster ones run larger batches", () => {
  const sizes = [0, 0];
  const counts = [0, 0];
  const listener: RunListener = {
    refused: () => undefined,
    finished: ({ gpu, requests }, begin, end) => {
      const type = gpu < 2 ? 0 : 1;
      expect(end - begin).toBe(types[type]!.times * profile.latency(requests.length));
      sizes[type]! += requests.length;
      counts[type]! += 1;
    },
  };
  simulate(unlike({ rate: 8_000 }), { listener });
  expect(sizes[0]! / counts[0]!).toBeGreaterThan(1.1 * (sizes[1]! / counts[1]!));
});

test.each(["poisson", "gamma"] as const)("together they carry what each type carries alone: %s", (process) => {
  const arrivals = process === "gamma" ? { process, shape: 0.1 } : { process };
  const most = (own: readonly (typeof types)[number][]): number => {
    const gpus = own.reduce((sum, one) => sum + one.gpus, 0);
    let [low, high] = [100, 20_000];
    while (high / low > 1.03) {
      const rate = Math.sqrt(low * high);
      if (badAt(rate, { types: own, gpus, arrivals }) <= 0.01) low = rate;
      else high = rate;
    }
    return low;
  };
  const [fast, slow, both] = [most(types.slice(0, 1)), most(types.slice(1)), most(types)];
  expect(slow).toBeGreaterThan(1_000);
  expect(both).toBeGreaterThan(0.95 * (fast + slow));
});

test("a static split by types is there to compare with: each model's requests in proportion to what a type carries", () => {
  const byType = [0, 0];
  const listener: RunListener = {
    refused: () => undefined,
    finished: ({ gpu, requests }) => void (byType[gpu < 2 ? 0 : 1]! += requests.length),
  };
  simulate(unlike({ rate: 3_000, policy: "default:pools" }), { listener });
  const share = byType[0]! / (byType[0]! + byType[1]!);
  expect(share).toBeGreaterThan(0.6);
  expect(share).toBeLessThan(0.85);
});
