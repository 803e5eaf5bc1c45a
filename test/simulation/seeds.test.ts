import { expect, test } from "vitest";
import { SEEDS_MS, runSeeds } from "./run-seeds.ts";
import { runTrial } from "./trial.ts";

test(
  "seeds of faults break no invariant (T1 to T9), and service comes back once faults stop: 1 to 150",
  { timeout: SEEDS_MS },
  () => {
    runSeeds(1, 150);
  },
);

test("a run that hangs as faults stop ends its process, and every ingress in it, before light load is asked for", () => {
  expect(runTrial(1_201_006).violation).toBeUndefined();
});

test("the fast accelerators of a pool are as many as measure at once, and the slow ones are measured too", () => {
  expect(runTrial(1_201_133).violation).toBeUndefined();
});

test("deferred probes of three models on one slow accelerator don't fall due together each time", () => {
  expect(runTrial(1_201_867).violation).toBeUndefined();
});

test("a seed gives the same messages at the same moments each time, told or not (T6)", () => {
  const digests = new Set<string>();
  for (const seed of [1, 2, 3, 5, 8, 13, 21]) {
    const { digest, events } = runTrial(seed);
    expect(events).toBeGreaterThan(500);
    expect(runTrial(seed, "told").digest, `seed ${seed}`).toBe(digest);
    digests.add(digest);
  }
  expect(digests.size).toBe(7);
});
