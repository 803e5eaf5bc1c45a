import { instant, millis, after } from "@tutti/units";
import { expect, test } from "vitest";
import { LeaderActivity } from "./leader-activity.ts";

const at = (ms: number) => after(instant(0), millis(ms));

test("a leader has work for two seconds after a grant was heard of, and for as long while nothing is known", () => {
  const work = new LeaderActivity(at(0));
  expect([work.isThere(at(1_999)), work.isThere(at(2_000))]).toEqual([true, false]);
  work.heard(5, at(3_000));
  work.heard(5, at(3_500));
  expect([work.isThere(at(4_999)), work.isThere(at(5_000))]).toEqual([true, false]);
  work.heard(6, at(6_000));
  expect(work.isThere(at(7_999))).toBe(true);
});
