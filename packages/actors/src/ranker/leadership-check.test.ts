import { type Instant, after, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { LeadershipCheck } from "./leadership-check.ts";

const START = instant(1_767_225_600_000_000);
const at = (ms: number): Instant => after(START, millis(ms));

test("it holds for 25 ms after the newest that came back was sent, whatever older comes later", () => {
  const leadershipCheck = new LeadershipCheck(() => undefined);
  expect(leadershipCheck.holds(START)).toBe(false);
  leadershipCheck.begin(START);
  expect([0, 25, 26].map((ms) => leadershipCheck.holds(at(ms)))).toEqual([true, true, false]);
  leadershipCheck.cameBack(at(20));
  leadershipCheck.cameBack(at(10));
  expect([45, 46].map((ms) => leadershipCheck.holds(at(ms)))).toEqual([true, false]);
});

test("it is asked for in time, and again when no answer comes", () => {
  const asked: Instant[] = [];
  const leadershipCheck = new LeadershipCheck((now) => asked.push(now));
  leadershipCheck.begin(START);
  for (const ms of [5, 12, 13, 15, 17, 19]) leadershipCheck.refresh(at(ms));
  expect(asked).toEqual([at(13), at(19)]);
  leadershipCheck.cameBack(at(19));
  leadershipCheck.refresh(at(25));
  expect(asked).toHaveLength(2);
  leadershipCheck.ask(at(26));
  expect(asked).toHaveLength(3);
});
