import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { around, dynamicLoad, dynamicModel } from "../testing/dynamic-model.ts";
import type { SimRequest } from "../cluster/simulated-cluster.ts";
import { baselines } from "./index.ts";
import { RecentRuns } from "./recent-runs.ts";
import { QUIET, Recorder } from "./testing/recorded-run.ts";

const LOAD = dynamicLoad([around(20)], { costs: { c0: 0, c1: 1, fromOne: false }, sizes: [1, 2] });
const MODEL = dynamicModel("m", LOAD, 1, 50); // an SLO of over a second

test("a size is predicted to take the mean of its last ten runs, and a larger one at least as long", () => {
  const expected = { batchSizeMax: 4, byBatchSize: Float64Array.of(Infinity, 10, 20, 30, 40, Infinity) };
  const recent = new RecentRuns({ sizes: [1, 2, 4] }, expected);
  expect([...recent.byBatchSize]).toEqual([Infinity, 10, 20, 30, 40, Infinity]);
  for (const time of [1000, 20, 30]) recent.note(1, time);
  expect([...recent.byBatchSize.slice(1, 5)]).toEqual([350, 350, 350, 350]);
  for (let i = 0; i < 10; i++) recent.note(1, 14);
  expect([...recent.byBatchSize.slice(1, 5)]).toEqual([14, 20, 30, 40]);
  expect([1, 2, 3, 4, 9].map((count) => recent.supported(count))).toEqual([1, 2, 2, 4, 4]);
  expect(recent.supported(0)).toBe(0);
});

/** The second of two requests waits while the first runs for `soloMs`, of which about 20 ms are expected. */
function secondAfter(soloMs: number): Recorder {
  const recorder = new Recorder();
  const cluster = baselines["clockwork"]!(undefined)({
    ...{ models: [MODEL], gpus: 1, gather: "target", network: QUIET, seed: 1, listener: recorder },
  });
  for (const [id, solo] of [
    [1, 1000 * soloMs],
    [2, 20_000],
  ] as const) {
    const arrivedAt = (id * 1000) as Instant;
    const { slo } = MODEL;
    const request: SimRequest = {
      id,
      model: 0,
      arrivedAt,
      deadline: (arrivedAt + slo) as Instant,
      slo,
      app: 0,
      solo,
      units: 0,
    };
    cluster.arrive(request);
  }
  cluster.runUntilIdle();
  return recorder;
}

test("Clockwork-like drops the batch that was to follow one that runs on for over 3 ms, and only then", () => {
  expect(secondAfter(22).refusedAs).toEqual([]);
  expect(secondAfter(26).refusedAs).toEqual(["2 overloaded"]);
  expect(secondAfter(26).story).toEqual(["A×1 @1"]);
});
