import fc from "fast-check";
import { expect, test } from "vitest";
import { ScalingAdvisor } from "../index.ts";

const calm = { executors: 10, bad: 0, total: 1000, idleShare: 0 };

test("more is asked for at once, and by A8's measure", () => {
  const advisor = new ScalingAdvisor();
  expect(advisor.step({ ...calm, bad: 200, idleShare: 0.2 })).toEqual({
    window: { kind: "add", executors: 3 },
    advice: { kind: "add", executors: 3 },
    executors: 13,
  });
});

test("some are released only after two windows that both offered, and then the lesser of the two (SA2)", () => {
  const advisor = new ScalingAdvisor();
  const kinds = [0.5, 0.3, 0.5, 0, 0.5, 0.4].map((idleShare) => {
    const { advice } = advisor.step({ ...calm, idleShare });
    return advice.kind === "keep" ? 0 : advice.executors;
  });
  expect(kinds).toEqual([0, 3, 0, 0, 0, 4]);
});

test("what a simulation says is needed is asked for before anything is bad, and kept however idle it is (SA3)", () => {
  const advisor = new ScalingAdvisor({ windowsToRelease: 1 });
  expect(advisor.step({ ...calm, fewest: 12 })).toMatchObject({ advice: { kind: "add", executors: 2 }, executors: 12 });
  expect(advisor.step({ ...calm, idleShare: 0.6, fewest: 8 }).executors).toBe(8);
  expect(advisor.step({ ...calm, idleShare: 0.6, fewest: 10 }).advice).toEqual({ kind: "keep" });
});

test("of a load that is flat, advice finds the capacity from below and from above, and then holds still (A8)", () => {
  // Capacity is proportional to executors; the load is worth 7.3 of them.
  const offered = 7.3;
  const windowAt = (executors: number) => ({
    executors,
    total: 10_000,
    bad: Math.round(10_000 * Math.max(0, 1 - executors / offered)),
    idleShare: Math.max(0, 1 - offered / executors),
  });
  for (const start of [1, 2, 5, 8, 16, 40]) {
    const advisor = new ScalingAdvisor();
    let executors = start;
    for (let i = 0; i < 8; i++) executors = advisor.step(windowAt(executors)).executors;
    expect([start, executors]).toEqual([start, 8]);
  }
});

test("nothing is asked for and offered in one breath, and the last is never released (SA1)", () => {
  const windows = fc.array(
    fc.record({
      badShare: fc.double({ min: 0, max: 1, noNaN: true }),
      idleShare: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(windows, (given) => {
      const advisor = new ScalingAdvisor();
      let executors = 4;
      for (const { badShare, idleShare } of given) {
        const { advice, executors: after } = advisor.step({
          executors,
          bad: Math.round(100 * badShare),
          total: 100,
          idleShare,
        });
        const change = advice.kind === "keep" ? 0 : advice.kind === "add" ? advice.executors : -advice.executors;
        expect(after).toBe(executors + change);
        expect(after).toBeGreaterThanOrEqual(1);
        if (Math.round(100 * badShare) > 1) expect(change).toBeGreaterThan(0);
        executors = Math.min(after, 1000);
      }
    }),
    { numRuns: 50 },
  );
});
