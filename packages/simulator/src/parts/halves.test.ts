import { millis, seconds } from "@tutti/units";
import { describe, expect, test } from "vitest";
import { D6_INTERFERENCE, D6_PROFILES } from "@tutti/planning/testing";
import { type RunListener, simulate } from "../run.ts";
import type { AcceleratorType, Scenario, ScenarioModel } from "../scenario/scenario.ts";
import type { SimBatch } from "../cluster/simulated-cluster.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";
import { divisionFor } from "./halves.ts";
import { partLatency, wholeProfile } from "./part-profile.ts";

const D6_MODELS = D6_PROFILES.map(({ name, alpha, beta, sigma, slo, u, v }): ScenarioModel => {
  const parts = { alpha: 1000 * alpha, beta: 1000 * beta, fills: sigma, cacheUse: u, bandwidthUse: v };
  return model(name, 1 / D6_PROFILES.length, { parts, profile: wholeProfile(parts, 32), slo: millis(slo) });
});
const d6 = (changes: Partial<Scenario>): Scenario =>
  smallScenario({
    ...{ models: D6_MODELS, gpus: 4, duration: seconds(21), warmup: seconds(1), policy: "default", rate: 500 },
    ...changes,
  });
const worstOf = (scenario: Scenario): number => Math.max(...simulate(scenario).models.map(({ badRate }) => badRate));

describe("the default policy on D6's models, which leave most of an accelerator idle", () => {
  // Measured, by goodput: 49 and 1,483; 1,062 crowded; 2,935 and 4,492; 3,731 crowded.
  test.each([
    { gpus: 4, crowded: false },
    { gpus: 4, crowded: true },
    { gpus: 8, crowded: false },
    { gpus: 8, crowded: true },
  ])("$gpus accelerators, crowded $crowded: halves carry what D9 expects, and whole ones don't", (one) => {
    const scenario = d6({ gpus: one.gpus, ...(one.crowded && { interference: D6_INTERFERENCE }) });
    const { division } = simulate(scenario);
    expect(division).toMatchObject({ kind: "halves", waitsOnWhole: "le" });
    const { halvesRps, wholeRps } = division!;
    expect(halvesRps).toBeGreaterThan(1.2 * wholeRps);
    expect(worstOf({ ...scenario, rate: 0.9 * halvesRps })).toBeLessThan(0.01);
    expect(worstOf({ ...scenario, rate: 1.15 * halvesRps })).toBeGreaterThan(0.01);
    expect(worstOf({ ...scenario, rate: 0.9 * halvesRps, policy: "default:whole" })).toBeGreaterThan(0.01);
  });

  test("two batches at a time run on an accelerator, each on a half and as long as a half takes", () => {
    const busy = new Map<string, number>();
    let both = 0;
    const listener: RunListener = {
      refused: () => undefined,
      finished: ({ gpu, part, model: own, requests }: SimBatch, begin, end) => {
        expect(gpu).toBeLessThan(4);
        expect(part?.share).toBe(0.5);
        const [here, beside] = [`${gpu}.${part!.place}`, `${gpu}.${1 - part!.place}`];
        expect(begin).toBeGreaterThanOrEqual(busy.get(here) ?? 0);
        if ((busy.get(beside) ?? 0) > begin) both++;
        busy.set(here, end);
        expect(end - begin).toBe(partLatency(D6_MODELS[own]!.parts!, requests.length, 0.5));
      },
    };
    const { gpu } = simulate(d6({ rate: 1200 }), { listener });
    expect(busy.size).toBe(8);
    expect(both).toBeGreaterThan(1000);
    expect(gpu).toMatchObject({ count: 4, used: 4 });
    expect(gpu.busyFraction).toBeLessThan(0.8);
  });

  test("neighbours slow every run by what the worst of them does", () => {
    const factors = new Set<string>();
    const listener: RunListener = {
      refused: () => undefined,
      finished: ({ model: own, requests }, begin, end) =>
        void factors.add(
          `${own} ${((end - begin) / partLatency(D6_MODELS[own]!.parts!, requests.length, 0.5)).toFixed(2)}`,
        ),
    };
    simulate(d6({ rate: 800, interference: D6_INTERFERENCE, policy: "default:halves" }), { listener });
    // vgg slows most: 0.5·0.45·0.5 + 0.2·0.6·0.5 + 0.9, and le adds 0.2·0.1·0.5 + 0.3·0.1·0.5 of its own.
    const worst = (u: number, v: number): number => 0.2 * u * 0.5 + 0.3 * v * 0.5 + 0.1125 + 0.06 + 0.9;
    for (const [i, { u, v }] of D6_PROFILES.entries()) expect(factors).toContain(`${i} ${worst(u, v).toFixed(2)}`);
  });

  test("each sub-cluster decides for itself", () => {
    const solid = Array.from({ length: 9 }, (_, i) => model(`solid${i}`, 1 / 18, { slo: millis(100) }));
    const light = D6_MODELS.map((one) => ({ ...one, share: 1 / 18 }));
    const parts = new Map<number, Set<boolean>>();
    const listener: RunListener = {
      refused: () => undefined,
      finished: ({ model: own, part }) => void parts.set(own, (parts.get(own) ?? new Set()).add(part !== undefined)),
    };
    simulate(d6({ models: [...solid, ...light], gpus: 16, subClusters: 2, rate: 1000 }), { listener });
    for (const seen of parts.values()) expect(seen.size).toBe(1);
  });
});

describe("the default policy on D6's models and unlike accelerators", () => {
  const typesOf = (fast: number, slow: number, times: number): AcceleratorType[] => [
    { name: "fast", gpus: fast, times: 1 },
    { name: "slow", gpus: slow, times },
  ];
  const unlike = (types: readonly AcceleratorType[], changes: Partial<Scenario> = {}): Scenario =>
    d6({ types, gpus: types.reduce((sum, { gpus }) => sum + gpus, 0), ...changes });

  // Measured, by goodput: whole, fast as halves, slow as halves, both.
  test.each([
    { types: typesOf(2, 4, 2), divided: ["fast", "slow"], rate: 1_300, waits: "nas" }, // 114, 628, 336, 1,492
    { types: typesOf(4, 8, 4), divided: ["fast"], rate: 1_600, waits: "le" }, // 29, 1,858, 29, 1,905
  ])(
    "$types.0.gpus fast and $types.1.gpus slow ones: $divided as halves, which carry $rate r/s and whole ones don't",
    (one) => {
      const scenario = unlike(one.types, { rate: one.rate });
      expect(simulate(scenario).division).toMatchObject({
        kind: "halves",
        types: one.divided,
        waitsOnWhole: one.waits,
      });
      expect(worstOf(scenario)).toBeLessThan(0.01);
      expect(worstOf({ ...scenario, policy: "default:whole" })).toBeGreaterThan(0.05);
    },
  );

  test("accelerators that are enough stay whole", () => {
    const many = simulate(unlike(typesOf(8, 16, 2), { rate: 100 }));
    expect(many.division).toMatchObject({ kind: "whole", types: [] });
  });

  test("batches on halves of one type are told on the accelerators that they are halves of, as long as a half takes", () => {
    const parts = new Map<number, Set<number>>();
    const listener: RunListener = {
      refused: () => undefined,
      finished: ({ gpu, part, model: own, requests }, begin, end) => {
        parts.set(gpu, (parts.get(gpu) ?? new Set()).add(part === undefined ? -1 : part.place));
        const [share, times] = gpu < 4 ? [0.5, 1] : [1, 4];
        expect(part?.share ?? 1).toBe(share);
        expect(end - begin).toBe(times * partLatency(D6_MODELS[own]!.parts!, requests.length, share));
      },
    };
    const { gpu } = simulate(unlike(typesOf(4, 8, 4), { rate: 1_600 }), { listener });
    expect(gpu.count).toBe(12);
    expect(gpu.busyFraction).toBeLessThan(1);
    for (const [id, places] of parts) expect([...places].sort()).toEqual(id < 4 ? [0, 1] : [-1]);
    expect(parts.size).toBeGreaterThan(4);
  });

  test("default:halves divides all types", () => {
    const places = new Set<number | undefined>();
    const listener: RunListener = {
      refused: () => undefined,
      finished: ({ gpu, part }) => {
        expect(gpu).toBeLessThan(24);
        places.add(part?.place);
      },
    };
    simulate(unlike(typesOf(8, 16, 2), { rate: 500, policy: "default:halves" }), { listener });
    expect(places).toEqual(new Set([0, 1]));
  });
});

test("what isn't asked for, or can't be divided, stays whole", () => {
  expect(divisionFor(d6({}))?.divided).toEqual([true]);
  for (const policy of ["default:whole", "default:halves", "default:latency", "eager", "fractions"])
    expect(divisionFor(d6({ policy }))).toBeUndefined();
  expect(divisionFor(smallScenario({ policy: "default" }))).toBeUndefined();
  const full = D6_MODELS.map((one) => {
    const parts = { ...one.parts!, fills: 1 };
    return { ...one, parts, profile: wholeProfile(parts, 32), slo: millis(400) };
  });
  const { division } = simulate(d6({ models: full, rate: 100 }));
  expect(division).toMatchObject({ kind: "whole", waitsOnWhole: null });
});
