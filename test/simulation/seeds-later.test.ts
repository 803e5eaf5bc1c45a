/** The second half of the seeds: test files run beside one another. */
import { test } from "vitest";
import { SEEDS_MS, runSeeds } from "./run-seeds.ts";

test(
  "seeds of faults break no invariant (T1 to T9), and service comes back once faults stop: 151 to 300",
  { timeout: SEEDS_MS },
  () => {
    runSeeds(151, 300);
  },
);
