import { instant, seconds } from "@tutti/units";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type RampInForce, type RampSeen, judgeRamp, stepTime } from "./ramp.ts";

const at = (s: number) => instant(1e15 + s * 1e6);
const RAMP: RampInForce = {
  ...{ steps: [1, 10, 100], step: 0, steppedAt: at(0), over: seconds(30) },
  ...{ badMax: 0.01, mismatchMax: 0 },
};
const FINE: RampSeen = { good: 1_000, bad: 0, compared: 10, mismatched: 0, serves: true, givenUp: "" };

test("each step is in force for its part of the time, and after the last one it is done (RA1)", () => {
  expect(stepTime(RAMP)).toBe(10_000_000);
  expect(judgeRamp(RAMP, FINE, at(9.9))).toEqual({ kind: "stay" });
  expect(judgeRamp(RAMP, FINE, at(10))).toEqual({ kind: "step", step: 1 });
  expect(judgeRamp(RAMP, FINE, at(300))).toEqual({ kind: "step", step: 1 });
  expect(judgeRamp({ ...RAMP, step: 2, steppedAt: at(20) }, FINE, at(29.9))).toEqual({ kind: "stay" });
  expect(judgeRamp({ ...RAMP, step: 2, steppedAt: at(20) }, FINE, at(30))).toEqual({ kind: "done" });
});

test("more bad requests than may be turn it back, two of few don't (RA3)", () => {
  const verdict = (good: number, bad: number): string => judgeRamp(RAMP, { ...FINE, good, bad }, at(1)).kind;
  expect([verdict(0, 2), verdict(0, 3), verdict(297, 3), verdict(296, 3)]).toEqual(["stay", "back", "stay", "back"]);
  expect(judgeRamp(RAMP, { ...FINE, good: 7, bad: 3 }, at(2))).toEqual({
    kind: "back",
    why: "3 of 10 requests at 1 % were refused or late within 2 s, more than 1 %",
  });
});

test("one answer that differs turns it back where none may", () => {
  const verdict = (compared: number, mismatched: number, mismatchMax: number): string =>
    judgeRamp({ ...RAMP, mismatchMax }, { ...FINE, compared, mismatched }, at(1)).kind;
  expect([verdict(50, 0, 0), verdict(50, 1, 0), verdict(100, 1, 0.01), verdict(99, 1, 0.01)]).toEqual([
    "stay",
    "back",
    "stay",
    "back",
  ]);
});

test("a version that was given up turns it back at once, and one that can't be served for now only holds it", () => {
  expect(judgeRamp(RAMP, { ...FINE, givenUp: "it is quarantined" }, at(0))).toEqual({
    kind: "back",
    why: "it is quarantined",
  });
  expect(judgeRamp(RAMP, { ...FINE, serves: false }, at(1_000))).toEqual({ kind: "stay" });
});

test("whatever is seen, shares go one step up at a time, and nothing that is within its bounds goes back", () => {
  const counts = fc.nat({ max: 10_000 });
  fc.assert(
    fc.property(
      counts,
      counts,
      counts,
      fc.nat({ max: 2 }),
      fc.nat({ max: 100 }),
      (good, bad, mismatched, step, later) => {
        const ramp = { ...RAMP, step, mismatchMax: 1 };
        const seen = { ...FINE, good, bad, compared: 10_000, mismatched };
        const verdict = judgeRamp(ramp, seen, at(later));
        if (verdict.kind === "step") expect(verdict.step).toBe(step + 1);
        expect(verdict.kind === "back").toBe(bad >= 3 && bad / (good + bad) > 0.01);
      },
    ),
  );
});
