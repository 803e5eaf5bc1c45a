import { Prng, instant, millis } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Reserve } from "./reserve.ts";

const SLO = millis(25);
const STEP = SLO / 4 / 64;

/** Batches of ten, one a millisecond; the first request of each is late by `lateBy` with the reserve taken off. */
function run(reserve: Reserve, batches: number, from: number, lateBy: (i: number) => number): number {
  for (let i = 0; i < batches; i++) {
    const end = instant(1_000_000 + 1_000 * (from + i));
    const due = end - lateBy(i) + reserve.us;
    const requests = Array.from({ length: 10 }, (_, j) => ({ deadline: instant(Math.round(due) + 2_000 * j) }));
    reserve.note({ requests, reserve: reserve.us }, end, SLO);
  }
  return from + batches;
}

test("where every batch ends in time nothing is kept in hand", () => {
  const reserve = new Reserve();
  run(reserve, 500, 0, () => -1);
  expect([reserve.us, reserve.late]).toEqual([0, 0]);
});

test("batches keep what all but half a percent of the requests need, whatever was kept meanwhile", () => {
  const prng = new Prng(7);
  const reserve = new Reserve();
  // A tenth of the requests are heads; those of one batch in ten, a hundredth of all, end up to 4 ms later than
  // planned.
  run(reserve, 4_000, 0, () => (prng.nextFloat() < 0.1 ? 4_000 * prng.nextFloat() : 0));
  expect(reserve.us).toBeGreaterThan(2_000 - 5 * STEP);
  expect(reserve.us).toBeLessThan(2_000 + 5 * STEP);
});

test("a machine that begins to stand still is answered within a second, and given back within thirty of quiet", () => {
  const reserve = new Reserve();
  const quiet = run(reserve, 2_000, 0, () => -100);
  const noisy = run(reserve, 1_000, quiet, (i) => (i % 200 < 16 ? 3_000 : 0));
  expect(reserve.us).toBeGreaterThan(2_500);
  run(reserve, 30_000, noisy, () => -100);
  expect(reserve.us).toBe(0);
});

test("one stall long ago doesn't hold a slow model's reserve: requests fade with time too (RES-2)", () => {
  const reserve = new Reserve();
  const late = { requests: [1, 2, 3].map(() => ({ deadline: instant(1_000_000) })), reserve: 0 };
  reserve.note(late, instant(1_003_000), SLO);
  expect(reserve.us).toBeGreaterThanOrEqual(3_000);
  for (let second = 2; second < 32; second++)
    reserve.note({ requests: [{ deadline: instant(1e6 * second + 1) }], reserve: 0 }, instant(1e6 * second), SLO);
  expect(reserve.us).toBe(0);
});

test("requests that no reserve could have helped move none: a long stall says nothing about the next second (RES-5)", () => {
  const reserve = new Reserve();
  const quiet = run(reserve, 1_000, 0, () => -100);
  run(reserve, 40, quiet, () => 800_000);
  expect([reserve.us, reserve.late]).toEqual([0, 400]);
});

test("a profile that was too short costs no reserve once it is mended (RES-4)", () => {
  const reserve = new Reserve();
  const wrong = run(reserve, 1_000, 0, () => 3_000);
  expect(reserve.us).toBeGreaterThanOrEqual(3_000);
  reserve.plansLonger(3_000, SLO);
  expect(reserve.us).toBe(0);
  run(reserve, 1_000, wrong, (i) => (i % 10 === 0 ? 2_000 : 0));
  expect(reserve.us).toBeGreaterThan(2_000 - STEP);
  reserve.plansLonger(-3_000, SLO);
  expect(reserve.us).toBeGreaterThan(2_000 - STEP);
});

test("the reserve is between 0 and a quarter of the SLO, whatever ends when (RES-1)", () => {
  const batch = fc.record({
    size: fc.integer({ min: 1, max: 64 }),
    lateBy: fc.integer({ min: -50_000, max: 10_000_000 }),
  });
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 50 }), (batches) => {
      const reserve = new Reserve();
      let at = 20_000_000;
      for (const { size, lateBy } of batches) {
        const requests = Array.from({ length: size }, () => ({ deadline: instant(Math.max(0, at - lateBy)) }));
        reserve.note({ requests, reserve: reserve.us }, instant(at), SLO);
        expect(reserve.us).toBeGreaterThanOrEqual(0);
        expect(reserve.us).toBeLessThanOrEqual(SLO / 4);
        at += 5_000;
      }
    }),
  );
});
