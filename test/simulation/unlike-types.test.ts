/**
 * Seeds of faults with accelerators of two types: a batch ends in time by the latencies of the one that is granted (M4,
 * checked on every batch), and what only a fast one can serve neither stays nor is lost twice.
 */
import { test } from "vitest";
import { planOf } from "./plan.ts";
import { SEEDS_MS, runSeeds } from "./run-seeds.ts";

test(
  "seeds of faults break no invariant where every second executor takes 1.5 to 4 times as long",
  { timeout: SEEDS_MS },
  () => {
    // With runs that also take up to three times as long as planned, engines would be taken for hung.
    runSeeds(1, 60, (seed) => ({
      ...planOf(seed),
      hasFamily: false,
      slowdownMax: 1,
      slow: { factor: 1.5 + 0.5 * (seed % 6), executors: [false, true, false, true] },
    }));
  },
);
