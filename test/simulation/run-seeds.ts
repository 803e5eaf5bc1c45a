import { expect } from "vitest";
import { failureText } from "./fuzz-seeds.ts";
import { planOf } from "./plan.ts";
import { runTrial } from "./trial.ts";

/** A time-out for machines that are busy with other work. */
export const SEEDS_MS = 900_000;

/** Checks the invariants under faults of these seeds, both included; `npm run fuzz` tries more. */
export function runSeeds(first: number, last: number, plan = planOf): void {
  let ok = 0;
  let asked = 0;
  for (let seed = first; seed <= last; seed++) {
    const result = runTrial(seed, "silent", plan(seed));
    ok += result.ok;
    asked += result.asked;
    if (result.violation !== undefined) expect.fail(failureText(runTrial(seed, "told", plan(seed))));
  }
  // With fewer requests the checkers would check nothing.
  expect(asked).toBeGreaterThan((last - first + 1) * 50);
  expect(ok / asked).toBeGreaterThan(0.4);
}
