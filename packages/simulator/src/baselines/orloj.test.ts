import { histogram } from "@tutti/dynamic";
import { type Instant, type Micros, micros } from "@tutti/units";
import { expect, test } from "vitest";
import type { Lengths } from "../dynamic/lengths.ts";
import { type DynamicLoad, meanProfile } from "../dynamic/dynamic-load.ts";
import type { ScenarioModel } from "../scenario/scenario.ts";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { baselines } from "./index.ts";
import { QUIET, Recorder } from "./testing/recorded-run.ts";

/** B10.3: A takes 10 to 20 ms, B 40 to 60, equally often; c0 = 4 ms, c1 = 0.5 also at k = 1. */
const constant = (ms: number): Lengths => ({ kind: "constant", at: 1000 * ms });
const LOAD: DynamicLoad = {
  apps: [
    { name: "A", share: 0.5, lengths: constant(15), alone: histogram([10_000, 20_000], [1]) },
    { name: "B", share: 0.5, lengths: constant(50), alone: histogram([40_000, 60_000], [1]) },
  ],
  costs: { c0: 4_000, c1: 0.5, fromOne: false },
  sizes: [1, 2, 4],
  hints: "none",
};
const MODEL: ScenarioModel = {
  ...{ name: "worked", profile: meanProfile(LOAD), slo: 160_000 as Micros, classes: [], share: 1, dynamic: LOAD },
};

function request(id: number, app: number, deadlineMs: number, solo: number): SimRequest {
  const deadline = (1000 * deadlineMs) as Instant;
  return { id, model: 0, arrivedAt: 0 as Instant, deadline, slo: micros(deadline), app, solo: 1000 * solo, units: 0 };
}

/** r1 … r5 of the example, at t = 0, on a free accelerator. */
function play(factory: SimClusterFactory, lengths: readonly [a: number, b: number]): Recorder {
  const recorder = new Recorder();
  const cluster = factory({ models: [MODEL], gpus: 1, gather: "target", network: QUIET, seed: 1, listener: recorder });
  const [a, b] = lengths;
  for (const one of [
    request(1, 0, 20, a),
    request(2, 1, 70, b),
    request(3, 0, 90, a),
    request(4, 0, 150, a),
    request(5, 1, 160, b),
  ])
    cluster.arrive(one);
  cluster.runUntilIdle();
  return recorder;
}

const firstBatch = ({ dispatches }: Recorder): number[] => dispatches[0]!.batch.requests.map(({ id }) => id);

test("of B10.3's requests the largest size with enough of them runs first, r3 and r4; most urgent first it is r1 alone", () => {
  expect(firstBatch(play(baselines["orloj"]!(undefined), [15, 50]))).toEqual([3, 4]);
  expect(firstBatch(play(baselines["orloj"]!("urgent"), [15, 50]))).toEqual([1]);
});

test("a request is refused when not even a batch of one is expected to end by its deadline: r1 after 8.5 ms", () => {
  const { refusals } = play(baselines["orloj"]!(undefined), [15, 50]);
  expect(refusals[0]).toMatchObject({ id: 1, cause: "overloaded", at: 8_501 });
});

test("what a batch takes is found out by running it: 4 + 0.5·2·15 = 19 ms for two of A", () => {
  const { ended } = play(baselines["orloj"]!(undefined), [15, 50]);
  expect(ended[0]).toMatchObject({ begin: 0, end: 19_000 });
});

test("decisions hang on distributions alone: other lengths, the same first batch", () => {
  expect(firstBatch(play(baselines["orloj"]!(undefined), [19, 41]))).toEqual([3, 4]);
});

test("who knows lengths leads with the earliest deadline and adds whoever still fits", () => {
  // r1 alone ends after 11.5 ms; with one more of A after 19 ms, which r1 allows; with two more after 26.5, which it
  // doesn't.
  expect(firstBatch(play(baselines["knows-lengths"]!(undefined), [15, 50]))).toEqual([1, 3]);
  expect(firstBatch(play(baselines["knows-lengths"]!("throughput"), [15, 50]))).toEqual([1, 3]);
});

test.for<[string, string, RegExp]>([
  ["orloj", "largest", /'orloj' takes 'urgent', 'mixture' and a rate .* but was given 'largest'/],
  ["orloj", "0", /but was given '0'/],
  ["orloj", "urgent,", /but was given ''/],
  ["knows-lengths", "all", /takes 'deadline', 'similar' or 'throughput'.* but was given 'all'/],
])("%s:%s is refused with what would do", ([name, parameter, message]) => {
  expect(() => baselines[name]!(parameter)).toThrow(message);
});
