import { type Micros, Prng, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { nextGamma } from "./gaps.ts";
import type { Scenario } from "./scenario.ts";
import type { SimRequest } from "../cluster/simulated-cluster.ts";
import { model, smallScenario } from "../testing/small-scenario.ts";
import { createWorkload } from "./workload.ts";

function all(scenario: Scenario): SimRequest[] {
  const workload = createWorkload(scenario);
  const requests: SimRequest[] = [];
  for (let r = workload.next(); r !== undefined; r = workload.next()) requests.push(r);
  return requests;
}

const gapsOf = (requests: readonly SimRequest[]): number[] =>
  requests.slice(1).map(({ arrivedAt }, i) => arrivedAt - requests[i]!.arrivedAt);
const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / numbers.length;
/** Variance over the square of the mean: 1 for Poisson, 1/shape for Gamma. */
function dispersion(numbers: readonly number[]): number {
  const m = mean(numbers);
  return mean(numbers.map((x) => (x - m) ** 2)) / m ** 2;
}
const long = { duration: micros(40_000_000) };

test("requests come in order, numbered from 1, within the scenario's time, due one SLO later", () => {
  const requests = all(smallScenario({ models: [model("a", 0.7), model("b", 0.3)] }));
  expect(requests.length).toBeGreaterThan(10_000);
  requests.forEach(({ id, arrivedAt, deadline, slo }, i) => {
    if (id !== i + 1 || !Number.isInteger(arrivedAt) || deadline !== arrivedAt + slo) throw new Error(`request ${i}`);
    if (arrivedAt < (requests[i - 1]?.arrivedAt ?? 0) || arrivedAt >= 2_200_000) throw new Error(`request ${i}`);
  });
});

test("slices have the same requests, model by model, each with a number of its own (WORKLOAD-6)", () => {
  const scenario = smallScenario({ models: [model("a", 0.7), model("never", 0), model("b", 0.3)], rate: 20_000 });
  const workload = createWorkload(scenario);
  const requests: SimRequest[] = [];
  const ids = new Set<number>();
  let [before, slices] = [0, 0];
  for (let slice = workload.nextSlice!(); slice !== undefined; slice = workload.nextSlice!()) {
    const { ends, until } = slice;
    const mine = slice.requests.slice(0, ends[2]);
    mine.forEach(({ id, model, arrivedAt }, place) => {
      if (arrivedAt < before || arrivedAt >= until) throw new Error(`a request of ${arrivedAt} before ${until}`);
      if (place < (ends[model - 1] ?? 0) || place >= ends[model]!) throw new Error(`model ${model} at ${place}`);
      if (place > (ends[model - 1] ?? 0) && mine[place - 1]!.arrivedAt > arrivedAt) throw new Error(`order`);
      ids.add(id);
    });
    requests.push(...mine);
    before = until;
    slices++;
  }
  expect(slices).toBeGreaterThan(3);
  const inOrder = (a: SimRequest, b: SimRequest): number => a.arrivedAt - b.arrivedAt || a.model - b.model;
  const told = ({ model, arrivedAt, deadline }: SimRequest) => [model, arrivedAt, deadline];
  expect(requests.toSorted(inOrder).map(told)).toEqual(all(scenario).map(told));
  expect(ids.size).toBe(requests.length);
});

test.each([
  ["poisson", { process: "poisson" }, 1],
  ["gamma of shape 0.1", { process: "gamma", shape: 0.1 }, 10],
  ["gamma of shape 4", { process: "gamma", shape: 4 }, 0.25],
  ["uniform", { process: "uniform" }, 0],
] as const)("%s arrivals have the rate asked for and their process's dispersion", (_, arrivals, expected) => {
  const requests = all(smallScenario({ arrivals, ...long }));
  expect(requests.length / 40 / 5000).toBeCloseTo(1, 1);
  expect(Math.abs(dispersion(gapsOf(requests)) - expected)).toBeLessThan(0.08 * Math.max(expected, 0.01));
});

test("Gamma draws have mean and variance equal to their shape, below and above 1", () => {
  for (const shape of [0.1, 0.5, 1, 2.5, 20]) {
    const prng = new Prng(5);
    const draws = Array.from({ length: 100_000 }, () => nextGamma(prng, shape));
    expect(mean(draws) / shape).toBeCloseTo(1, 1);
    expect((dispersion(draws) * shape) / 1).toBeCloseTo(1, 1);
  }
});

test("bursty arrivals don't all begin at once: the first 10 ms carry no more than their share", () => {
  const models = Array.from({ length: 200 }, (_, i) => model(`m${i}`, 1 / 200));
  const early = [1, 2, 3, 4, 5, 6, 7, 8].flatMap((seed) =>
    all(
      smallScenario({ seed, models, rate: 20_000, arrivals: { process: "gamma", shape: 0.1 }, duration: millis(10) }),
    ),
  );
  expect(early.length / (8 * 200)).toBeGreaterThan(0.8);
  expect(early.length / (8 * 200)).toBeLessThan(1.2);
});

test("a model's arrivals stay as they are when models are added or their order changes (WORKLOAD-1)", () => {
  const of = (scenario: Scenario, name: string) =>
    all(scenario)
      .filter(({ model: m }) => scenario.models[m]!.name === name)
      .map(({ arrivedAt, slo }) => [arrivedAt, slo]);
  const classes = [{ slo: millis(100), share: 0.3 }];
  const before = smallScenario({ models: [model("a", 1, { classes })], rate: 1000 });
  const after = smallScenario({ models: [model("b", 0.75), model("a", 0.25, { classes })], rate: 4000 });
  expect(of(after, "a")).toEqual(of(before, "a"));
});

test("requests are spread over SLO classes by their shares, and over models by theirs", () => {
  const classes = [
    { slo: millis(50), share: 0.2 },
    { slo: millis(100), share: 0.3 },
  ];
  const requests = all(smallScenario({ models: [model("a", 0.8, { classes }), model("b", 0.2)], ...long }));
  const share = (is: (r: SimRequest) => boolean, of: SimRequest[]) => of.filter(is).length / of.length;
  const ofA = requests.filter((r) => r.model === 0);
  expect(ofA.length / requests.length).toBeCloseTo(0.8, 2);
  expect(share((r) => r.slo === 25_000, ofA)).toBeCloseTo(0.5, 2);
  expect(share((r) => r.slo === 50_000, ofA)).toBeCloseTo(0.2, 2);
  expect(share((r) => r.slo === 100_000, ofA)).toBeCloseTo(0.3, 2);
});

test("phases bend the rate and the shares from their moments on, and a rate of 0 is silence (WORKLOAD-3)", () => {
  const s = (count: number) => micros(count * 1_000_000);
  const phases = [
    { from: s(10), factor: 2, shares: [0.1, 0.9] },
    { from: s(20), factor: 0 },
    { from: s(30), factor: 0.5 },
  ];
  for (const arrivals of [{ process: "poisson" }, { process: "gamma", shape: 0.5 }, { process: "uniform" }] as const) {
    const requests = all(smallScenario({ models: [model("a", 0.5), model("b", 0.5)], phases, arrivals, ...long }));
    const count = (of: number, decade: number) =>
      requests.filter((r) => r.model === of && Math.floor(r.arrivedAt / s(10)) === decade).length;
    for (const [decade, a, b] of [
      [0, 25_000, 25_000],
      [1, 10_000, 90_000],
      [2, 0, 0],
      [3, 12_500, 12_500],
    ] as const) {
      expect(Math.abs(count(0, decade) - a)).toBeLessThanOrEqual(0.05 * a);
      expect(Math.abs(count(1, decade) - b)).toBeLessThanOrEqual(0.05 * b);
    }
  }
});

test("a trace is replayed with its times stretched to the rate, in order, its SLOs before the model's", () => {
  const at = (ms: number, name: string, slo?: number) => ({
    at: millis(ms),
    model: name,
    app: "x",
    slo: slo as Micros | undefined,
  });
  const entries = [at(10, "a"), at(5, "b", 40_000), at(20, "b"), at(40, "a")];
  const models = [model("a", 0.5), model("b", 0.5)];
  const asRecorded = all(smallScenario({ models, arrivals: { process: "trace", entries }, rate: 0 }));
  expect(asRecorded.map((r) => ({ ...r }))).toMatchObject([
    { id: 1, model: 1, arrivedAt: 5_000, slo: 40_000 },
    { id: 2, model: 0, arrivedAt: 10_000, slo: 25_000, deadline: 35_000 },
    { id: 3, model: 1, arrivedAt: 20_000 },
    { id: 4, model: 0, arrivedAt: 40_000 },
  ]);
  // 4 requests in 40 ms are 100 a second; at 50 a second everything takes twice as long.
  const slower = all(smallScenario({ models, arrivals: { process: "trace", entries }, rate: 50 }));
  expect(slower.map((r) => r.arrivedAt)).toEqual([10_000, 20_000, 40_000, 80_000]);
  const unknown = smallScenario({ models: [model("a", 1)], arrivals: { process: "trace", entries } });
  expect(() => createWorkload(unknown)).toThrow("requests for 'b', which the scenario doesn't describe (it has a)");
});

test("a million requests a second are drawn without memory for each", () => {
  const scenario = smallScenario({ rate: 1e6, duration: micros(300_000), models: [model("a", 0.5), model("b", 0.5)] });
  const workload = createWorkload(scenario);
  let last: SimRequest | undefined;
  for (let r = workload.next(); r !== undefined; r = workload.next()) last = r;
  expect(last!.id / 300_000).toBeCloseTo(1, 1);
});
