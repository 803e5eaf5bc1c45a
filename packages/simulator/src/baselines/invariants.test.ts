import { micros, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import type { Arrivals, Network, Scenario } from "../scenario/scenario.ts";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { dynamicRunTime, longestOf } from "../dynamic/dynamic-load.ts";
import { around, dynamicLoad, dynamicModel } from "../testing/dynamic-model.ts";
import { partProfile } from "../parts/part-profile.ts";
import { createWorkload } from "../scenario/workload.ts";
import { baselines } from "./index.ts";
import { QUIET, Recorder, model } from "./testing/recorded-run.ts";

const SLOW: Network = { ctrl: micros(300), data: micros(40), respond: micros(200), jitter: 0.1 };
const POISSON: Arrivals = { process: "poisson" };
const BURSTY: Arrivals = { process: "gamma", shape: 0.1 };

const TWO = dynamicLoad([around(5), around(40)]);
const FROM_ONE = dynamicLoad([around(60)], { costs: { c0: 5_000, c1: 0.2, fromOne: true }, hints: "exact" });
const DYNAMIC = [
  dynamicModel("two", TWO, 0.4),
  dynamicModel("one", FROM_ONE, 0.2, 1.5),
  model("static", { alpha: 1, beta: 5, slo: 25, share: 0.4 }),
];

const policies: [string, string | undefined][] = [
  ...Object.keys(baselines).map((name): [string, undefined] => [name, undefined]),
  ["nexus", "8"],
  ["triton", "5ms"],
  ["capped", "3"],
  ["clockwork", "5ms"],
  ["shepherd", "1.5"],
  ["eager-least-latest", "1"],
  ["orloj", "urgent,1e-3"],
  ["orloj", "mixture"],
  ["knows-lengths", "similar"],
  ["knows-lengths", "throughput"],
];

function scenario(more: Partial<Scenario>): Scenario {
  const [short, long] = [25_000, 100_000].map((slo) => micros(slo));
  const models = [
    model("a", { alpha: 1, beta: 5, slo: 25, share: 0.5 }),
    { ...model("b", { alpha: 0.4, beta: 2, slo: 25, share: 0.3 }), classes: [{ slo: long!, share: 0.4 }] },
    { ...model("c", { alpha: 5, beta: 18, slo: 70, share: 0.199 }), classes: [{ slo: short!, share: 0.01 }] },
    model("d", { alpha: 1, beta: 30, slo: 20, share: 0.001 }), // can't be met at all
  ];
  const times = { duration: seconds(1), warmup: micros(0), phases: [] };
  const rest = { gather: "target", policy: "", arrivals: POISSON, network: QUIET } as const;
  return { seed: 5, gpus: 4, rate: 1000, models, ...times, ...rest, ...more };
}

function play(factory: SimClusterFactory, of: Scenario): { recorder: Recorder; requests: SimRequest[] } {
  const recorder = new Recorder();
  const cluster = factory({ ...of, listener: recorder });
  const requests: SimRequest[] = [];
  const workload = createWorkload(of);
  for (let request = workload.next(); request !== undefined; request = workload.next()) {
    requests.push(request);
    cluster.arrive(request);
  }
  cluster.runUntilIdle();
  return { recorder, requests };
}

const loads: [string, Partial<Scenario>][] = [
  ["a light load", { rate: 300 }],
  ["three times what is possible", { rate: 5000 }],
  ["bursts over a network with delays", { rate: 1200, arrivals: BURSTY, network: SLOW }],
  ["fewer accelerators than models", { rate: 300, gpus: 2 }],
  ["dynamic and static models", { rate: 150, models: DYNAMIC }],
  ["too much for dynamic models, over a network", { rate: 800, models: DYNAMIC, network: SLOW, gpus: 2 }],
];

test.for(policies)("%s:%s keeps its promises under every load", ([name, parameter]) => {
  for (const [load, more] of loads) {
    const of = scenario(more);
    const { recorder, requests } = play(baselines[name]!(parameter), of);
    expect(fates(recorder), `each request ends once (${load})`).toEqual(requests.map(({ id }) => [id, 1]));
    expectOneAtATime(recorder, of);
    const misshapen = recorder.ended.filter(({ batch: { model: its, requests: some } }) => {
      return (
        some.length === 0 || some.length > of.models[its]!.profile.batchSizeMax || some.some((one) => one.model !== its)
      );
    });
    expect(misshapen).toEqual([]);
    expect(recorder.dispatches.length, "what is dispatched ends").toBe(recorder.ended.length);
  }
});

test.for(policies)("%s:%s does the same again, given the same", ([name, parameter]) => {
  for (const of of [
    scenario({ rate: 2000, arrivals: BURSTY, network: SLOW }),
    scenario({ rate: 300, models: DYNAMIC }),
  ]) {
    const [once, again] = [0, 1].map(() => play(baselines[name]!(parameter), of).recorder);
    expect(JSON.stringify(once)).toBe(JSON.stringify(again));
  }
});

test.for(["clockwork", "shepherd", "eager-least-latest"])("%s answers in time whatever it runs", (name) => {
  const { recorder } = play(baselines[name]!(undefined), scenario({ rate: 5000, network: SLOW }));
  const late = recorder.ended.filter(({ batch, end, completed }) => {
    return completed && batch.requests.some(({ deadline }) => end + 220 > deadline);
  });
  expect(late).toEqual([]);
});

/** [id, how often it was refused or finished], by id. */
function fates({ refusals, ended }: Recorder): [number, number][] {
  const ends = new Map<number, number>();
  const note = (id: number) => ends.set(id, (ends.get(id) ?? 0) + 1);
  for (const { id } of refusals) note(id);
  for (const { batch, completed } of ended) if (completed) for (const { id } of batch.requests) note(id);
  return [...ends].toSorted(([a], [b]) => a - b);
}

/**
 * On each accelerator, or on each of its parts, which together are no more than it; and runs take what they take there.
 */
function expectOneAtATime({ ended }: Recorder, { gpus, models }: Scenario): void {
  const busyUntil = new Float64Array(2 * gpus).fill(-Infinity);
  const shares = new Float64Array(2 * gpus);
  const wrong = ended
    .toSorted((a, b) => a.begin - b.begin || a.end - b.end)
    .filter(({ batch, begin, end, completed }) => {
      const { place, share } = batch.part ?? { place: 0, share: 1 };
      const [own, other] = [2 * batch.gpu + place, 2 * batch.gpu + 1 - place];
      const overlaps = begin < busyUntil[own]! || (begin < busyUntil[other]! && share + shares[other]! > 1 + 1e-9);
      busyUntil[own] = end;
      shares[own] = share;
      const { profile, dynamic } = models[batch.model]!;
      const size = batch.requests.length;
      const planned = partProfile(models[batch.model]!, Math.round(100 * share)).latency(size);
      const slower = planned / profile.latency(size);
      const run =
        dynamic === undefined ? planned : Math.round(slower * dynamicRunTime(dynamic, size, longestOf(batch.requests)));
      return overlaps || (completed ? Math.abs(end - begin - run) > (share < 1 ? 1 : 0) : end - begin >= run);
    });
  expect(wrong).toEqual([]);
}

test.for<[string, string, RegExp]>([
  ["nexus", "0", /'nexus' takes a whole number from 1 to 1024, as in 'nexus:8', but was given '0'/],
  ["nexus", "2.5", /a whole number/],
  ["nexus", "", /was given ''/],
  ["triton", "soon", /'triton' takes a time, as in 'triton:5ms', but was given 'soon'/],
  ["capped", "0", /'capped' takes a whole number from 1 to 1024, as in 'capped:8', but was given '0'/],
  ["capped", "120%", /a number from 1 to 100, as in 'capped:60%'/],
  ["clockwork", "-1ms", /takes a time/],
  ["shepherd", "1", /a number from 1.01/],
  ["eager-least-latest", "all", /a number from 0.01 to 4/],
  ["fractions", "2", /'fractions' has no parameter/],
  ["clipper", "3", /'clipper' has no parameter, but was given '3'/],
])("%s:%s is refused with what would do", ([name, parameter, message]) => {
  expect(() => baselines[name]!(parameter)).toThrow(message);
});
