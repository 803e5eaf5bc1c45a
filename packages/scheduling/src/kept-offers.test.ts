import type { Instant, Micros } from "@tutti/units";
import { expect, test } from "vitest";
import { KeptOffers } from "./kept-offers.ts";
import type { Candidate } from "./messages.ts";

const dueAt = (at: number): Candidate => ({ batchSize: 1, execAt: at + 5, delay: 5 as Micros }) as unknown as Candidate;
const NOTHING = { ...dueAt(0), batchSize: 0 };

/** Turns of 100 µs, the first from 0 on. */
function offersOf(models: number) {
  const told: number[] = [];
  const offers = new KeptOffers(models, 100, (model) => told.push(model));
  offers.reach(0 as Instant);
  return { offers, told: () => told.splice(0) };
}

test("an offer is kept until the turn in which it is due, and only the newest is told then (KO1)", () => {
  const { offers, told } = offersOf(2);
  expect([offers.keep(0, dueAt(350)), offers.keep(0, dueAt(320)), offers.keep(1, dueAt(99))]).toEqual([
    true,
    true,
    false,
  ]);
  offers.reach(99 as Instant);
  offers.reach(150 as Instant); // until 250
  expect(told()).toEqual([]);
  expect(offers.keep(0, dueAt(300))).toBe(true);
  offers.reach(250 as Instant);
  expect(told()).toEqual([0]);
  offers.reach(350 as Instant);
  expect(told()).toEqual([]);
});

test("one that replaces what is due in this turn is told at once, and one that takes an offer back always is (KO2)", () => {
  const { offers, told } = offersOf(1);
  expect(offers.keep(0, dueAt(50))).toBe(false);
  expect(offers.keep(0, dueAt(500))).toBe(false);
  expect(offers.keep(0, dueAt(450))).toBe(true);
  expect(offers.keep(0, NOTHING)).toBe(false);
  expect(offers.keep(0, dueAt(450))).toBe(true);
  offers.tellAll();
  expect(told()).toEqual([0]);
});

test("what the ranker has and is due sooner than what is kept makes that one told, too (KO2)", () => {
  const { offers, told } = offersOf(1);
  expect(offers.keep(0, dueAt(40))).toBe(false);
  expect(offers.keep(0, dueAt(150))).toBe(false); // the ranker has it
  expect(offers.keep(0, dueAt(900))).toBe(true);
  offers.reach(100 as Instant);
  expect(told()).toEqual([0]);
});

test("an answered grant voids what was told and what is kept, and a model is listed once however often that happens", () => {
  const { offers, told } = offersOf(1);
  expect([offers.keep(0, dueAt(50)), offers.keep(0, dueAt(500))]).toEqual([false, false]);
  for (let i = 0; i < 3; i++) {
    offers.voided(0);
    expect(offers.keep(0, dueAt(150))).toBe(true);
  }
  offers.voided(0);
  expect(offers.listed).toBe(1);
  offers.reach(100 as Instant);
  expect([told(), offers.listed]).toEqual([[], 0]);
  for (let i = 0; i < 3; i++) {
    expect(offers.keep(0, dueAt(250))).toBe(true);
    offers.voided(0);
    expect(offers.keep(0, dueAt(260))).toBe(true);
  }
  expect(offers.listed).toBe(1);
  offers.reach(200 as Instant);
  expect([told(), offers.listed]).toEqual([[0], 0]);
});

test("everything is told until the end of the turn, and a turn takes time", () => {
  const { offers } = offersOf(1);
  expect([offers.isToldUntil(99 as Instant), offers.isToldUntil(100 as Instant)]).toEqual([true, false]);
  expect(() => new KeptOffers(1, 0, () => {})).toThrow("turns of 0 µs");
});
