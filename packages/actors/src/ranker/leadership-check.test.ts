import { type Instant, after, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { LeadershipCheck } from "./leadership-check.ts";

const START = instant(1_767_225_600_000_000);
const at = (ms: number): Instant => after(START, millis(ms));

test("it holds for 25 ms after the newest that came back was sent, whatever older comes later", () => {
  const leadershipCheck = new LeadershipCheck(
    () => undefined,
    () => true,
  );
  expect(leadershipCheck.holds(START)).toBe(false);
  leadershipCheck.begin(START);
  expect([0, 25, 26].map((ms) => leadershipCheck.holds(at(ms)))).toEqual([true, true, false]);
  leadershipCheck.cameBack(at(20));
  leadershipCheck.cameBack(at(10));
  expect([45, 46].map((ms) => leadershipCheck.holds(at(ms)))).toEqual([true, false]);
});

test("it is asked for in time, and again when no answer comes", () => {
  const asked: Instant[] = [];
  const leadershipCheck = new LeadershipCheck(
    (now) => asked.push(now),
    () => true,
  );
  leadershipCheck.begin(START);
  for (const ms of [5, 12, 13, 15, 17, 19]) leadershipCheck.refresh(at(ms));
  expect(asked).toEqual([at(13), at(19)]);
  leadershipCheck.answered(at(19), at(20));
  leadershipCheck.refresh(at(25));
  expect(asked).toHaveLength(2);
  leadershipCheck.ask(at(26));
  expect(asked).toHaveLength(3);
  leadershipCheck.cameBack(at(30)); // perhaps over a link
  leadershipCheck.refresh(at(32));
  expect(asked).toHaveLength(4);
});

/** Looks every 5 ms, as long as a question is open. */
function lookUntil(leadershipCheck: LeadershipCheck, from: number, to: number): void {
  for (let ms = from; ms <= to; ms += 5) leadershipCheck.look(at(ms));
}

test("a server that answers nothing for 20 ms ends no lead, and an answer brings back the rule", () => {
  const asked: Instant[] = [];
  const leadershipCheck = new LeadershipCheck(
    (now) => asked.push(now),
    () => true,
  );
  leadershipCheck.begin(START);
  leadershipCheck.refresh(at(13));
  lookUntil(leadershipCheck, 18, 28);
  expect([leadershipCheck.holds(at(25)), leadershipCheck.holds(at(28))]).toEqual([true, false]);
  lookUntil(leadershipCheck, 33, 5_028);
  expect([leadershipCheck.holds(at(5_030)), leadershipCheck.isSilent(at(5_030))]).toEqual([true, true]);
  expect(asked.length).toBeLessThan(5_000 / 25 + 5); // each waits for an answer
  // The first answers are to old questions: all that came since must be read, too.
  leadershipCheck.answered(at(13), at(5_030));
  expect([leadershipCheck.holds(at(5_030)), leadershipCheck.isSilent(at(5_030))]).toEqual([false, false]);
  leadershipCheck.ask(at(5_033));
  for (let ms = 5_034; ms <= 5_060; ms += 2) {
    leadershipCheck.answered(at(4_000), at(ms));
    leadershipCheck.look(at(ms));
    expect([leadershipCheck.holds(at(ms)), leadershipCheck.isAsking]).toEqual([false, true]);
  }
  leadershipCheck.answered(asked.at(-1)!, at(5_062));
  expect([leadershipCheck.holds(at(5_062)), leadershipCheck.isAsking]).toEqual([true, false]);
});

test("an answer ends the asking also where newer questions are still on their way", () => {
  for (const roundTripMs of [1, 8, 24, 40]) {
    const asked: Instant[] = [];
    const leadershipCheck = new LeadershipCheck(
      (now) => asked.push(now),
      () => true,
    );
    leadershipCheck.begin(START);
    leadershipCheck.refresh(at(13));
    for (let ms = 14; ms < 1_000; ms++) {
      const sentAt = asked.find((question) => after(question, millis(roundTripMs)) === at(ms));
      if (sentAt !== undefined) leadershipCheck.answered(sentAt, at(ms));
      if (ms % 5 === 0) leadershipCheck.look(at(ms));
    }
    expect(leadershipCheck.isAsking).toBe(false);
    expect(asked.length).toBeLessThanOrEqual(1 + roundTripMs / 5);
  }
});

test("a leader that was stopped takes no silence for granted, before or after it was silent", () => {
  for (const silentMs of [0, 1_000]) {
    const leadershipCheck = new LeadershipCheck(
      () => undefined,
      () => true,
    );
    leadershipCheck.begin(START);
    leadershipCheck.ask(START);
    lookUntil(leadershipCheck, 5, silentMs);
    const wakesMs = silentMs + 10_000;
    expect(leadershipCheck.holds(at(wakesMs))).toBe(false);
    leadershipCheck.look(at(wakesMs));
    expect(leadershipCheck.holds(at(wakesMs))).toBe(false);
    lookUntil(leadershipCheck, wakesMs + 5, wakesMs + 15);
    expect(leadershipCheck.holds(at(wakesMs + 15))).toBe(false);
    lookUntil(leadershipCheck, wakesMs + 20, wakesMs + 20);
    expect(leadershipCheck.holds(at(wakesMs + 20))).toBe(true);
  }
});

test("the answer to a grant, which may come without the server, ends no silence", () => {
  const leadershipCheck = new LeadershipCheck(
    () => undefined,
    () => true,
  );
  leadershipCheck.begin(START);
  leadershipCheck.ask(START);
  lookUntil(leadershipCheck, 5, 50);
  leadershipCheck.cameBack(at(45));
  expect(leadershipCheck.isSilent(at(50))).toBe(true);
});
