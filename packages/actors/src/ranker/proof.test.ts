import { type Instant, after, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { Proof } from "./proof.ts";

const START = instant(1_767_225_600_000_000);
const at = (ms: number): Instant => after(START, millis(ms));

test("it holds for 25 ms after the newest that came back was sent, whatever older comes later", () => {
  const proof = new Proof(() => undefined);
  expect(proof.holds(START)).toBe(false);
  proof.begin(START);
  expect([0, 25, 26].map((ms) => proof.holds(at(ms)))).toEqual([true, true, false]);
  proof.cameBack(at(20));
  proof.cameBack(at(10));
  expect([45, 46].map((ms) => proof.holds(at(ms)))).toEqual([true, false]);
});

test("it is asked for in time, and again when no answer comes", () => {
  const asked: Instant[] = [];
  const proof = new Proof((now) => asked.push(now));
  proof.begin(START);
  for (const ms of [5, 12, 13, 15, 17, 19]) proof.refresh(at(ms));
  expect(asked).toEqual([at(13), at(19)]);
  proof.cameBack(at(19));
  proof.refresh(at(25));
  expect(asked).toHaveLength(2);
  proof.ask(at(26));
  expect(asked).toHaveLength(3);
});
