import type { Goodput, MinGpus, Scenario } from "@tutti/simulator";
import { expect, test } from "vitest";
import { renderGoodput, renderMinGpus } from "./goodput-text.ts";

/** @param seconds - length of the recording at 100 r/s */
const scenario = (process: "poisson" | "trace", seconds = 600): Scenario => {
  const entries = Array.from({ length: 100 * seconds }, (_, i) => ({ at: (i + 1) * 10_000, model: "mlp" }));
  const given = { gpus: 1, rate: 500, warmup: 1_000_000, policy: "default", models: [{ name: "mlp" }] };
  return { ...given, arrivals: { process, entries } } as unknown as Scenario;
};
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

test("a recording that is too short at the rate that was found says so, and what helps", () => {
  const found = { goodputRps: 500, worstModelBadRate: 0, bound, trials: [trial] } as unknown as Goodput;
  const text = renderGoodput(scenario("trace", 10), { found, perSeed: [found] });
  expect(text).toContain("the recording lasts only 2 s, of which 1 s after the warm-up: too little to judge 1 % by");
  const fewest = { minGpus: 1, worstModelBadRate: 0, bound, trials: [trial] } as unknown as MinGpus;
  expect(renderMinGpus(scenario("trace", 10), { found: fewest, perSeed: [fewest] })).toContain("only 2 s");
  expect(renderMinGpus(scenario("trace"), { found: fewest, perSeed: [fewest] })).not.toContain("only");
});

test("one accelerator is one", () => {
  expect(textAt("poisson", 10)).toContain("mlp, policy default, 1 accelerator: 1 trial of 1 seed");
  const found = { minGpus: 1, worstModelBadRate: 0, bound, trials: [trial] } as unknown as MinGpus;
  expect(renderMinGpus(scenario("poisson"), { found, perSeed: [found] })).toContain("1 accelerator is enough");
});
