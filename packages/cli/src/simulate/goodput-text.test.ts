import type { Goodput, MinGpus, Scenario } from "@tutti/simulator";
import { expect, test } from "vitest";
import { renderGoodput, renderMinGpus } from "./goodput-text.ts";

const scenario = (process: "poisson" | "trace"): Scenario =>
  ({ gpus: 1, rate: 500, policy: "default", models: [{ name: "mlp" }], arrivals: { process } }) as unknown as Scenario;
const bound = { staggeredRps: 900, uncoordinatedRps: 800, clairvoyantRps: 1_000 };
const trial = { seed: 1, gpus: 1, rateRps: 10, worstModelBadRate: 0.009, worstModel: "mlp", good: true };
const textAt = (process: "poisson" | "trace", goodputRps: number): string => {
  const found = { goodputRps, worstModelBadRate: 0.009, bound, trials: [trial] } as unknown as Goodput;
  return renderGoodput(scenario(process), { found, perSeed: [found] });
};

test("the goodput of a recording that falls far below the bound is explained by its bursts, and no other one", () => {
  expect(textAt("trace", 10)).toContain("which another rate only stretches");
  expect(textAt("trace", 600)).not.toContain("stretches");
  expect(textAt("poisson", 10)).not.toContain("stretches");
});

test("the fewest accelerators come with their headroom, and with that of one more", () => {
  const found = { minGpus: 7, worstModelBadRate: 0, bound, trials: [trial] } as unknown as MinGpus;
  const headroom = [
    { gpus: 7, goodputRps: 505, share: 0.01 },
    { gpus: 8, goodputRps: 562, share: 0.124 },
  ];
  expect(renderMinGpus(scenario("poisson"), { found, perSeed: [found] }, headroom)).toContain(
    "7 accelerators are enough (worst model 0.00 % bad) and leave 1 % headroom; 8 leave 12 % headroom.",
  );
});

test("one accelerator is one", () => {
  expect(textAt("poisson", 10)).toContain("mlp, policy default, 1 accelerator: 1 trial of 1 seed");
  const found = { minGpus: 1, worstModelBadRate: 0, bound, trials: [trial] } as unknown as MinGpus;
  expect(renderMinGpus(scenario("poisson"), { found, perSeed: [found] })).toContain("1 accelerator is enough");
});
