import { expect, test } from "vitest";
import { failureText } from "./fuzz-seeds.ts";
import { runTrial } from "./trial.ts";

/** Number of seeds; `npm run fuzz` tries more. */
const SEEDS = 300;
/** A time-out for machines that are busy with other work. */
const TIMEOUT_MS = 900_000;

test(
  `${SEEDS} seeds of faults break no invariant (T1 to T9), and service comes back once faults stop`,
  { timeout: TIMEOUT_MS },
  () => {
    let ok = 0;
    let asked = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const result = runTrial(seed);
      ok += result.ok;
      asked += result.asked;
      if (result.violation !== undefined) expect.fail(failureText(runTrial(seed, "told")));
    }
    // With fewer requests the checkers would check nothing.
    expect(asked).toBeGreaterThan(SEEDS * 50);
    expect(ok / asked).toBeGreaterThan(0.4);
  },
);

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
