import { LatencyTable } from "@tutti/profile";
import { type Scenario, boundOf, simulateDetailed } from "@tutti/simulator";
import { micros, millis, seconds } from "@tutti/units";
import { afterAll, expect, test } from "vitest";
import { findGoodput, findMinGpus } from "./goodput-search.ts";
import { renderGoodput, renderMinGpus } from "./goodput-text.ts";
import { fromPortable, toPortable } from "@tutti/sim-report/scenarios";
import { Sweep } from "./sweep.ts";

const measured = [1, 2, 4, 8, 16].map((batchSize) => ({
  batchSize,
  latency: micros(Math.round(3000 + 700 * batchSize ** 0.9)),
}));
function scenarioOf(more: Partial<Scenario> = {}): Scenario {
  const line = LatencyTable.affine({ alpha: 1053.3, beta: 5072.1, batchSizeMax: 64 });
  return {
    seed: 1,
    duration: seconds(1),
    warmup: micros(200_000),
    gpus: 3,
    policy: "beta-lambda", // depends on α and β, to the last digit
    gather: "target",
    rate: 1500,
    arrivals: { process: "gamma", shape: 0.5 },
    network: { ctrl: micros(50), data: micros(5), respond: micros(100), jitter: 0.2 },
    models: [
      { name: "line", profile: line, slo: millis(25), classes: [{ slo: millis(80), share: 0.3 }], share: 0.5 },
      {
        name: "points",
        profile: LatencyTable.fromPoints(measured),
        slo: millis(30),
        classes: [],
        share: 0.5,
      },
    ],
    phases: [{ from: micros(500_000), factor: 1.2 }],
    ...more,
  };
}

const sweeps = [1, 2].map((workers) => new Sweep({ workers }));
afterAll(async () => {
  for (const sweep of sweeps) await sweep.close();
});

test("a scenario that went to another thread is the same, down to the fitted lines", () => {
  const scenario = scenarioOf();
  expect(fromPortable(structuredClone(toPortable(scenario)))).toEqual(scenario);
});

test("results are the same whatever the number of workers, and the same as without any", async () => {
  const scenarios = [1, 2, 3, 4, 5, 6].map((seed) => scenarioOf({ seed, rate: 800 + 200 * seed }));
  const direct = scenarios.map((scenario) => simulateDetailed(scenario));
  for (const sweep of sweeps) {
    const told: number[] = [];
    expect(await sweep.runAll(scenarios, (done) => told.push(done))).toEqual(direct);
    expect(told).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await sweep.bound(scenarios[0]!)).toEqual(boundOf(scenarios[0]!));
  }
});

test("a search finds the same with one worker and with two, down to its trials", async () => {
  const scenarios = [1, 2, 3].map((seed) => scenarioOf({ seed, policy: "deferred" }));
  const found = await Promise.all(
    sweeps.map(async (sweep) => {
      const [most, least] = [
        await findGoodput(scenarios, { sweep, short: true }),
        await findMinGpus(scenarios, { sweep, short: true }),
      ];
      return { most, least, text: [renderGoodput(scenarios[0]!, most), renderMinGpus(scenarios[0]!, least)] };
    }),
  );
  expect(found[0]).toEqual(found[1]);
  const { most, least } = found[0]!;
  expect(Object.keys(most.found)).toEqual(["goodputRps", "worstModelBadRate", "bound", "trials"]);
  expect(Object.keys(least.found)).toEqual(["minGpus", "worstModelBadRate", "bound", "trials"]);
  expect(most.found.goodputRps).toBeGreaterThan(0.5 * most.found.bound.clairvoyantRps);
  expect(most.found.goodputRps).toBeLessThan(most.found.bound.clairvoyantRps);
});

test("a simulation that fails says why, and the next one runs", async () => {
  const sweep = sweeps[0]!;
  await expect(sweep.run(scenarioOf({ policy: "nonsense" }))).rejects.toThrow("there is no policy 'nonsense'");
  expect((await sweep.run(scenarioOf())).result.offeredRps).toBeGreaterThan(0);
});

test("a sweep that is closed fails what waits, and takes no more", async () => {
  const sweep = new Sweep({ workers: 1 });
  const waiting = Promise.allSettled([sweep.run(scenarioOf()), sweep.run(scenarioOf())]);
  await sweep.close();
  expect((await waiting).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  await expect(sweep.run(scenarioOf())).rejects.toThrow("stopped");
});
