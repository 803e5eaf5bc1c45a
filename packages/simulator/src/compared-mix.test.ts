import { expect, test } from "vitest";
import { type MixPool, compareMix } from "./compared-mix.ts";
import { randomMix } from "./scenario/random-mix.ts";
import type { Scenario } from "./scenario/scenario.ts";

/** Each policy carries its rate and no more. */
function poolOf(rates: Readonly<Record<string, number>>, asked: Scenario[] = []): MixPool {
  return {
    run: (scenario) => {
      asked.push(scenario);
      const bad = scenario.rate <= rates[scenario.policy]! ? 0 : 50;
      return Promise.resolve({ streams: [{ model: 0, offered: 1000, bad }] });
    },
    bound: () => Promise.resolve({ staggeredRps: 900, uncoordinatedRps: 800, clairvoyantRps: 1000 }),
    nonPreemptive: (_, clairvoyantRps) => Promise.resolve(0.7 * clairvoyantRps),
  };
}

test("the best rival is found, and one that is no better is tried once only", async () => {
  const asked: Scenario[] = [];
  const rates = { default: 600, eager: 500, latest: 400, clockwork: 550 };
  const found = await compareMix(randomMix(3), ["eager", "latest", "clockwork"], poolOf(rates, asked));
  expect(found).toMatchObject({ seed: 3, rival: "clockwork", boundRps: 1000, nonPreemptiveRps: 700 });
  expect(found.goodputRps / 600).toBeCloseTo(1, 1);
  expect(found.rivalRps / 550).toBeCloseTo(1, 1);
  expect(asked.filter(({ policy }) => policy === "latest").length).toBe(1);
});

test("a mix that carries less than expected runs so long that 1 % of the rarest model is 50 requests", async () => {
  const mix = randomMix(3);
  const rarest = Math.min(...mix.models.map(({ share }) => share));
  const asked: Scenario[] = [];
  const found = await compareMix(mix, ["eager"], poolOf({ default: 300, eager: 200 }, asked));
  expect(found.badLeast).toBeGreaterThanOrEqual(50);
  const last = asked.at(-1)!;
  expect(last.duration).toBeGreaterThan(mix.duration);
  const judged = (last.duration - last.warmup) / 1e6;
  expect(found.badLeast).toBeCloseTo(0.01 * rarest * found.goodputRps * judged, 6);
});

test("the longest run is 600 s: what 1 % is then is said", async () => {
  const asked: Scenario[] = [];
  const found = await compareMix(randomMix(3), ["eager"], poolOf({ default: 2, eager: 1.5 }, asked));
  expect((asked.at(-1)!.duration - asked.at(-1)!.warmup) / 1e6).toBe(600);
  expect(found.badLeast).toBeLessThan(50);
});
