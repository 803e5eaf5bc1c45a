/** Later seeds: with a planner and idle models, halves of accelerators, a pipeline, and clocks that drift. */
import { expect, test } from "vitest";
import { LATER_SEEDS } from "./later-seeds.ts";
import { SEEDS_MS, runSeeds } from "./run-seeds.ts";
import { runTrial } from "./trial.ts";

test("later seeds of faults break no invariant (T1 to T9): the first 16", { timeout: SEEDS_MS }, () => {
  runSeeds(LATER_SEEDS, LATER_SEEDS + 15);
});

test("a request that the batch of a dynamic model leaves out is refused before its deadline", () => {
  expect(runTrial(3_000_045).violation).toBeUndefined();
});

test.each([
  ["a profiler that has just started, and has heard a fast one alone", 3_002_706],
  ["executors told their types before their first heartbeat", 3_002_413],
  ["one of them reports while the others are measured", 3_003_626],
])("slow accelerators get batches by their own latencies though %s", (_, seed) => {
  expect(runTrial(seed).violation).toBeUndefined();
});

test.each([
  ["models whose executor is awaited keep their places", 3_100_085],
  ["a model that had no room is served once models are divided", 3_100_113],
  ["a model that has room nowhere gets it once another has moved", 3_101_297],
  ["a model that had failed is served once a larger executor has it", 3_101_087],
  ["an executor that a planner hears again, after it was cut off, has what it had", 3_101_709],
])("where memory divides the models, %s", (_, seed) => {
  expect(runTrial(seed).violation).toBeUndefined();
});
