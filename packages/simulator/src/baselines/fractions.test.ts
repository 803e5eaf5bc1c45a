import { millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { partLatency, partProfile, wholeProfile } from "../parts/part-profile.ts";
import { type RunListener, simulate } from "../run.ts";
import type { ModelParts, ScenarioModel } from "../scenario/scenario.ts";
import type { SimBatch } from "../cluster/simulated-cluster.ts";
import { RESNET50, model, smallScenario } from "../testing/small-scenario.ts";

/** Models of docs/algorithms.md, D6; times in µs. */
const RES: ModelParts = { alpha: 1500, beta: 6000, fills: 0.08, cacheUse: 0.3, bandwidthUse: 0.45 };
const VGG: ModelParts = { alpha: 2100, beta: 4000, fills: 0.2, cacheUse: 0.45, bandwidthUse: 0.6 };
const GOO: ModelParts = { alpha: 800, beta: 7000, fills: 0.05, cacheUse: 0.22, bandwidthUse: 0.3 };
const partial = (name: string, parts: ModelParts, sloMs: number, share: number): ScenarioModel =>
  model(name, share, { profile: wholeProfile(parts, 32), slo: millis(sloMs), parts });

test("batches on parts take what D6 says, and a whole accelerator is a part too", () => {
  expect([20, 40, 50, 60, 80, 100].map((size) => partLatency(RES, 8, size / 100) / 1000)).toEqual(
    [66, 36, 30, 26, 24.75, 24.75].map((ms) => expect.closeTo(ms, 3)),
  );
  expect(wholeProfile(RES, 32).latency(8)).toBe(24_750);
  expect(partProfile(partial("res", RES, 108, 1), 20).latency(8)).toBe(66_000);
  // A model without `parts` takes as many times longer as the part is smaller.
  expect(partProfile(model("m", 1), 50).latency(4)).toBe(2 * RESNET50.latency(4));
  expect(partProfile(model("m", 1), 100)).toBe(RESNET50);
});

/** Records the parts that each model's batches ran on, and the time of every batch. */
class Placed implements RunListener {
  readonly shares = new Map<number, Set<number>>();
  readonly runs: { readonly model: number; readonly size: number; readonly share: number; readonly took: number }[] =
    [];
  refused(): void {}
  finished({ gpu, model: own, part, requests }: SimBatch, begin: number, end: number): void {
    expect(gpu).toBeLessThan(2);
    this.shares.set(own, (this.shares.get(own) ?? new Set()).add(part!.share));
    this.runs.push({ model: own, size: requests.length, share: part!.share, took: end - begin });
  }
}

const SHARED = {
  ...{ policy: "fractions", gpus: 1, duration: seconds(10), warmup: seconds(1), rate: 300 },
  models: [partial("goo", GOO, 66, 1 / 3), partial("res", RES, 108, 1 / 3), partial("vgg", VGG, 142, 1 / 3)],
};

test("what needs two whole accelerators fits on one in parts (D6.2): goo, res and vgg at 100 requests per second each", () => {
  const placed = new Placed();
  const { badRate, models } = simulate(smallScenario(SHARED), { listener: placed });
  expect(badRate).toBeLessThan(0.05);
  expect(simulate(smallScenario({ ...SHARED, policy: "nexus" })).badRate).toBeGreaterThan(2 * badRate);
  expect(Math.max(...models.map(({ badRate: bad }) => bad))).toBeLessThan(0.1);
  for (const { model: own, size, share, took } of placed.runs) {
    expect(took).toBe(partLatency(SHARED.models[own]!.parts!, size, share));
  }
  const sizes = [...placed.shares.values()].flatMap((shares) => [...shares]);
  expect(Math.max(...sizes)).toBeLessThan(1);
  expect(Math.min(...sizes) + Math.max(...sizes)).toBeCloseTo(1, 9);
});

test("neighbours slow one another by what the scenario says, and busy time counts parts by their size", () => {
  const placed = new Placed();
  const interference = [0.2, 0.5, 0.3, 0.2, 0.9] as const;
  const { gpu } = simulate(smallScenario({ ...SHARED, interference }), { listener: placed });
  const slowed = placed.runs.filter(
    ({ model: own, size, share, took }) => took > partLatency(SHARED.models[own]!.parts!, size, share),
  );
  expect(slowed.length).toBeGreaterThan(placed.runs.length / 2);
  for (const { model: own, size, share, took } of placed.runs) {
    expect(took / partLatency(SHARED.models[own]!.parts!, size, share)).toBeLessThan(2);
  }
  expect(gpu.busyFraction).toBeLessThanOrEqual(1);
  expect(gpu.busyFraction).toBeGreaterThan(0.3);
});

test("models that fill an accelerator alone are left on whole ones", () => {
  const placed = new Placed();
  const scenario = smallScenario({ policy: "fractions", gpus: 2, rate: 1000, duration: seconds(3) });
  const { badRate } = simulate(scenario, { listener: placed });
  expect([...placed.shares.get(0)!]).toEqual([1]);
  expect(badRate).toBe(simulate({ ...scenario, policy: "nexus" }).badRate);
});
