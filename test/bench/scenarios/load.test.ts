/**
 * The default policy far from its goodput: at half of it, and at twice. Goodputs are those of
 * packages/simulator/README.md.
 */
import { leastBusy, simulate } from "@tutti/simulator";
import { readScenario } from "@tutti/sim-report/scenarios";
import { expect, test } from "vitest";

const WORKLOADS = [
  { name: "table2-resnet50-poisson", goodput: 5_474, single: true },
  { name: "table2-inceptionresnetv2-poisson", goodput: 981, single: true },
  { name: "zoo-a100-poisson", goodput: 18_355, single: false },
  { name: "zoo-1080ti-poisson", goodput: 7_695, single: false },
];

const at = (name: string, rate: number) =>
  readScenario(`${import.meta.dirname}/${name}.yaml`, { overrides: { rate, durationS: 11, seed: 5 } });

test.for(WORKLOADS)(
  "at half its goodput and with accelerators preferred $name keeps them busy for at most 52 % of the time, or a tenth more than one who knows the future",
  async ({ name, goodput, single }) => {
    const scenario = { ...(await at(name, goodput / 2)), prefer: "accelerators" } as const;
    const { gpu } = simulate(scenario);
    const least = leastBusy(scenario) / scenario.gpus;
    // No scheduler could serve 99 % of a mix with 52 %: batches of a mix are smaller at half its rate.
    expect(least > 0.52).toBe(!single);
    expect(gpu.busyFraction).toBeLessThanOrEqual(single ? 0.52 : 1.1 * least);
    expect(gpu.used).toBeLessThan(scenario.gpus);
  },
);

test.for(WORKLOADS)("offered more than its goodput $name still serves its goodput", async ({ name, goodput }) => {
  for (const times of [1.5, 2]) {
    expect(simulate(await at(name, times * goodput)).goodRps).toBeGreaterThanOrEqual(goodput);
  }
});

test.for(["inception-imagenet", "resnet-imagenet"])(
  "on one accelerator that is overloaded for good the default serves at least 0.99 as many of %s as deferral as published",
  async (model) => {
    for (const sloP99 of [3, 5])
      for (const load of [0.9, 1.3]) {
        const choice = { model, sloP99: String(sloP99), load: String(load) };
        const scenario = await readScenario(`${import.meta.dirname}/dynamic-static.yaml`, { choice });
        const [adaptive, deferred] = ["default", "deferred"].map((policy) => simulate({ ...scenario, policy }).goodRps);
        expect(adaptive).toBeGreaterThanOrEqual(0.99 * deferred!);
      }
  },
);
