import { Prng, micros } from "@tutti/units";
import { expect, test } from "vitest";
import { simulate } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { SimRequest } from "../cluster/simulated-cluster.ts";
import { around, dynamicLoad, dynamicModel } from "../testing/dynamic-model.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";
import { createWorkload, rateOfLoad } from "../scenario/workload.ts";
import { dynamicRunTime, meanProfile, percentileProfile } from "./dynamic-load.ts";

const TWO = dynamicLoad([around(5), around(40)]);

function all(scenario: Scenario): SimRequest[] {
  const workload = createWorkload(scenario);
  const requests: SimRequest[] = [];
  for (let r = workload.next(); r !== undefined; r = workload.next()) requests.push(r);
  return requests;
}
const told = (requests: readonly SimRequest[]) =>
  requests.map(({ arrivedAt, deadline, app, solo, units }) => [arrivedAt, deadline, app, solo, units]);
const long = { duration: micros(40_000_000), rate: 500 };

test("equal seeds draw equal requests, other seeds others; other models change nothing of a model's (WORKLOAD-1)", () => {
  const own = dynamicModel("two", TWO);
  const alone = all(smallScenario({ models: [own] }));
  expect(told(all(smallScenario({ models: [own] })))).toEqual(told(alone));
  expect(told(all(smallScenario({ models: [own], seed: 2 })))).not.toEqual(told(alone));
  const beside = all(
    smallScenario({ models: [model("other", 0.5), dynamicModel("two", TWO, 0.5)], rate: 10_000 }),
  ).filter(({ model: its }) => its === 1);
  expect(told(beside)).toEqual(told(alone));
});

test("a dynamic model's arrivals are those of a static one of its name (WORKLOAD-4)", () => {
  const dynamic = all(smallScenario({ models: [dynamicModel("m", TWO)] }));
  const plain = all(smallScenario({ models: [model("m", 1)] }));
  expect(dynamic.map(({ arrivedAt }) => arrivedAt)).toEqual(plain.map(({ arrivedAt }) => arrivedAt));
  expect(plain.every(({ app, solo, units }) => app === 0 && solo === 0 && units === 0)).toBe(true);
});

test("applications come by their shares, take what their distributions say, and hint at it where hints are exact", () => {
  const load = dynamicLoad([around(5), around(40)]);
  const shares = [0.8, 0.2];
  const uneven = { ...load, apps: load.apps.map((app, i) => ({ ...app, share: shares[i]! })) };
  const requests = all(smallScenario({ ...long, models: [dynamicModel("m", uneven)] }));
  const short = requests.filter(({ app }) => app === 0);
  expect(short.length / requests.length).toBeCloseTo(0.8, 1);
  expect(short.every(({ solo }) => solo > 3_500 && solo < 6_500)).toBe(true);
  expect(requests.every(({ units }) => units === 0)).toBe(true);
  const hinted = all(smallScenario({ models: [dynamicModel("m", { ...uneven, hints: "exact" })] }));
  expect(hinted.every(({ units, solo }) => units === solo && units > 0)).toBe(true);
});

test("an application may have an SLO of its own", () => {
  const load = { ...TWO, apps: TWO.apps.map((app, i) => (i === 0 ? { ...app, slo: micros(30_000) } : app)) };
  const requests = all(smallScenario({ models: [dynamicModel("m", load)] }));
  expect(new Set(requests.filter(({ app }) => app === 0).map(({ slo }) => slo))).toEqual(new Set([30_000]));
  expect(requests.filter(({ app }) => app === 1).every(({ slo }) => slo > 100_000)).toBe(true);
});

test("of a recorded trace, named applications are those of the model, others are drawn", () => {
  const entries = Array.from({ length: 400 }, (_, i) => {
    return { at: micros(1000 * i), model: "m", app: i % 2 === 0 ? "app-1" : "nobody's", slo: undefined };
  });
  const scenario = smallScenario({
    arrivals: { process: "trace", entries },
    rate: 0,
    models: [dynamicModel("m", TWO)],
  });
  const requests = all(scenario);
  expect(requests.filter((_, i) => i % 2 === 0).every(({ app }) => app === 1)).toBe(true);
  expect(new Set(requests.filter((_, i) => i % 2 === 1).map(({ app }) => app))).toEqual(new Set([0, 1]));
  expect(told(all(scenario))).toEqual(told(requests));
});

test("modulated arrivals have the rate asked for, and counts of half seconds that vary as Gamma does", () => {
  for (const shape of [1, 4]) {
    const arrivals = { process: "modulated", shape, every: micros(500_000) } as const;
    const requests = all(smallScenario({ arrivals, rate: 1000, duration: micros(2_000_000_000) }));
    expect(Math.abs(requests.length / 2_000_000 - 1)).toBeLessThan(0.05);
    const counts = new Float64Array(4000);
    for (const { arrivedAt } of requests) counts[Math.floor(arrivedAt / 500_000)]!++;
    const mean = requests.length / counts.length;
    const variance = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / counts.length;
    // Poisson's own variance is the mean.
    expect(Math.abs(((variance - mean) / mean ** 2) * shape - 1)).toBeLessThan(0.15);
  }
}, 60_000);

test("modulated arrivals follow phases too, and end with the last of them", () => {
  const arrivals = { process: "modulated", shape: 4, every: micros(500_000) } as const;
  const phases = [
    { from: micros(10_000_000), factor: 3 },
    { from: micros(20_000_000), factor: 0 },
  ];
  const requests = all(smallScenario({ arrivals, phases, rate: 1000, duration: micros(40_000_000) }));
  const within = (from: number, until: number) =>
    requests.filter(({ arrivedAt }) => arrivedAt >= from && arrivedAt < until).length;
  expect(within(10_000_000, 20_000_000) / within(0, 10_000_000)).toBeGreaterThan(2);
  expect(within(20_000_000, Infinity)).toBe(0);
});

test("what a batch takes is c0 + c1·k·(its longest); one request may be exempt", () => {
  expect(dynamicRunTime(TWO, 4, 10_000)).toBe(5_000 + 0.3 * 4 * 10_000);
  expect(dynamicRunTime(TWO, 1, 10_000)).toBe(8_000);
  expect(dynamicRunTime({ ...TWO, costs: { ...TWO.costs, fromOne: true } }, 1, 10_000)).toBe(10_000);
});

test("planners see the mean of batches as they come, or their 99th percentile", () => {
  const prng = new Prng(3);
  const batches = Array.from({ length: 20_000 }, () => {
    const longest = Math.max(...Array.from({ length: 2 }, () => (prng.nextInt(2) === 0 ? 5_000 : 40_000)));
    return dynamicRunTime(TWO, 2, longest);
  });
  const mean = batches.reduce((a, b) => a + b, 0) / batches.length;
  expect(Math.abs(meanProfile(TWO).latency(2) / mean - 1)).toBeLessThan(0.02);
  expect(percentileProfile(TWO).latency(2)).toBeGreaterThan(dynamicRunTime(TWO, 2, 40_000));
  expect(percentileProfile(TWO).latency(2)).toBeLessThan(dynamicRunTime(TWO, 2, 46_000));
});

test("a load is the work of all accelerators at batches of 8: at load 1 they take as long as requests come", () => {
  const models = [model("s", 0.5), dynamicModel("d", TWO, 0.5)];
  const perRequest = models.reduce((sum, { profile, share }) => sum + (share * profile.latency(8)) / 8, 0);
  expect(rateOfLoad(1, models, 2) * perRequest).toBeCloseTo(2e6, 6);
  expect(rateOfLoad(1.3, models, 2) / rateOfLoad(1, models, 2)).toBeCloseTo(1.3, 12);
});

test("the judge tells of a dynamic model's applications, whose parts come to the whole, and of a static one's not", () => {
  const models = [model("s", 0.9), dynamicModel("d", TWO, 0.1)];
  const result = simulate(smallScenario({ models, rate: 2000, policy: "default" }));
  const [plain, dynamic] = result.models;
  expect(Object.keys(plain!)).toEqual(["name", "offeredRps", "goodRps", "badRate", "p50Ms", "p99Ms", "batchMean"]);
  expect(dynamic!.apps!.map(({ name }) => name)).toEqual(["app-0", "app-1"]);
  for (const key of ["offeredRps", "goodRps"] as const)
    expect(dynamic!.apps!.reduce((sum, app) => sum + app[key], 0)).toBeCloseTo(dynamic![key], 6);
  for (const { badRate, finishRate } of dynamic!.apps!) expect(finishRate).toBeCloseTo(1 - badRate, 12);
});

test("the default, which knows distributions, ends more in time than one that plans by a high percentile", () => {
  const models = [dynamicModel("d", TWO)];
  const rate = rateOfLoad(1.3, models, 1);
  const finished = (policy: string): number =>
    1 - simulate(smallScenario({ models, rate, gpus: 1, policy, duration: micros(40_000_000) })).badRate;
  expect(finished("default")).toBeGreaterThan(finished("deferred") + 0.1);
});
