import { Prng, instant, millis } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Reserve } from "./reserve.ts";

const SLO = millis(25);
const STEP = SLO / 4 / 64;

/** Accelerators that carry all, whatever is kept in hand. */
const plenty = (): number => 1;

/** Batches of ten, one a millisecond; the first request of each is late by `lateBy` with the reserve taken off. */
function run(reserve: Reserve, batches: number, from: number, lateBy: (i: number) => number): number {
  for (let i = 0; i < batches; i++) {
    const end = instant(1_000_000 + 1_000 * (from + i));
    const due = end - lateBy(i) + reserve.us;
    const requests = Array.from({ length: 10 }, (_, j) => ({ deadline: instant(Math.round(due) + 2_000 * j) }));
    reserve.note({ requests, reserve: reserve.us }, end, SLO);
    reserve.choose(end, SLO, plenty);
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
  expect(reserve.beyond).toBeLessThanOrEqual(0.005);
  expect(reserve.beyond).toBeGreaterThan(0.004);
});

test("requests that need more than any reserve count among those that end later", () => {
  const reserve = new Reserve();
  expect(reserve.beyond).toBe(0);
  // The first four of a batch's ten are later than any reserve may be.
  run(reserve, 2_000, 0, () => SLO / 2);
  expect(reserve.beyond).toBeCloseTo(0.4, 9);
});

test("a machine that begins to stand still is answered within a second, and given back within thirty of quiet", () => {
  const reserve = new Reserve();
  const quiet = run(reserve, 2_000, 0, () => -100);
  const noisy = run(reserve, 1_000, quiet, (i) => (i % 200 < 16 ? 3_000 : 0));
  expect(reserve.us).toBeGreaterThan(2_500);
  run(reserve, 30_000, noisy, () => -100);
  expect(reserve.us).toBe(0);
});

test("one stall long ago doesn't hold a slow model's reserve: requests fade with time too (RES-3)", () => {
  const reserve = new Reserve();
  const late = { requests: [1, 2, 3].map(() => ({ deadline: instant(1_000_000) })), reserve: 0 };
  reserve.note(late, instant(1_003_000), SLO);
  reserve.choose(instant(1_003_000), SLO, plenty);
  expect(reserve.us).toBeGreaterThanOrEqual(3_000);
  for (let second = 2; second < 32; second++)
    reserve.note({ requests: [{ deadline: instant(1e6 * second + 1) }], reserve: 0 }, instant(1e6 * second), SLO);
  reserve.choose(instant(32e6), SLO, plenty);
  expect(reserve.us).toBe(0);
});

test("less is kept in hand where more is then served in time: smaller batches must still carry the load", () => {
  const reserve = new Reserve();
  run(reserve, 2_000, 0, (i) => (i % 10 === 0 ? 4_000 : 0)); // a hundredth of the requests
  expect(reserve.us).toBeGreaterThan(3_900);
  /** The reserve, where each millisecond in hand takes a share of what could be carried. */
  const chosen = (at: number, capacity: number, share: number): number => {
    reserve.choose(instant(1e6 + 1_000 * at), SLO, (us) => Math.min(1, capacity * (1 - (share * us) / 1_000)));
    return reserve.us;
  };
  expect(chosen(2_100, 2, 0.02)).toBeGreaterThan(3_900); // all is carried all the same
  expect(chosen(2_200, 1, 0.02)).toBe(0); // 8 % are not carried, to have 1 % in time
  expect(chosen(2_300, 1, 0.001)).toBeGreaterThan(3_900); // 0.4 %
  expect(chosen(2_400, 1.06, 0.02)).toBeGreaterThan(2_700); // as far as all is carried, though that mends nothing
});

test("what a reserve can't mend raises none: a machine that stood still for a second (RES-2)", () => {
  const reserve = new Reserve();
  const quiet = run(reserve, 2_000, 0, () => -100);
  run(reserve, 50, quiet, (i) => 1_000_000 - 20_000 * i);
  expect(reserve.us).toBe(0);
  expect(reserve.late).toBeGreaterThan(400);
});

test("a profile that was too short costs no reserve once it is mended (RES-4)", () => {
  const reserve = new Reserve();
  const wrong = run(reserve, 1_000, 0, () => 3_000);
  expect(reserve.us).toBeGreaterThanOrEqual(3_000);
  reserve.plansChanged(10_000, 13_000, SLO);
  reserve.choose(instant(2_000_001), SLO, plenty);
  expect(reserve.us).toBe(0);
  run(reserve, 1_000, wrong, (i) => (i % 10 === 0 ? 2_000 : 0));
  expect(reserve.us).toBeGreaterThan(2_000 - STEP);
  reserve.plansChanged(13_000, 12_900, SLO);
  reserve.choose(instant(3_000_001), SLO, plenty);
  expect(reserve.us).toBeGreaterThan(2_000 - STEP); // a little shorter: nothing is rounded away
});

test("what slow runs needed shrinks with the runs when they are fast again (RES-4)", () => {
  const reserve = new Reserve();
  run(reserve, 1_000, 0, (i) => (i % 10 === 0 ? 4_500 : 0));
  expect(reserve.us).toBeGreaterThan(4_500 - STEP);
  reserve.plansChanged(30_000, 10_000, SLO);
  reserve.choose(instant(2_000_001), SLO, plenty);
  expect(reserve.us).toBeGreaterThan(1_500 - 2 * STEP);
  expect(reserve.us).toBeLessThan(1_500 + 2 * STEP);
});

test("a plan that changes bit by bit counts as one that jumps, and one that wavers as none (RES-4)", () => {
  const reserve = new Reserve();
  run(reserve, 1_000, 0, (i) => (i % 10 === 0 ? 4_500 : 0));
  for (let i = 0; i < 200; i++) reserve.plansChanged(i % 2 === 0 ? 10_000 : 10_300, i % 2 === 0 ? 10_300 : 10_000, SLO);
  reserve.choose(instant(2_000_001), SLO, plenty);
  expect(reserve.us).toBeGreaterThan(4_500 - STEP);
  for (let length = 30_000; length > 10_000; length *= 0.982) reserve.plansChanged(length, length * 0.982, SLO);
  reserve.choose(instant(3_000_001), SLO, plenty);
  expect(reserve.us).toBeGreaterThan(1_500 - 3 * STEP);
  expect(reserve.us).toBeLessThan(1_500 + 3 * STEP);
});

test("the reserve is between 0 and a quarter of the SLO, whatever ends when (RES-1)", () => {
  const batch = fc.record({
    size: fc.integer({ min: 1, max: 64 }),
    lateBy: fc.integer({ min: -50_000, max: 10_000_000 }),
  });
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 50 }), fc.float({ min: 0, max: 4, noNaN: true }), (batches, capacity) => {
      const reserve = new Reserve();
      let at = 20_000_000;
      for (const { size, lateBy } of batches) {
        const requests = Array.from({ length: size }, () => ({ deadline: instant(Math.max(0, at - lateBy)) }));
        reserve.note({ requests, reserve: reserve.us }, instant(at), SLO);
        reserve.choose(instant(at), SLO, (us) => 1 - (capacity * us) / SLO);
        expect(reserve.us).toBeGreaterThanOrEqual(0);
        expect(reserve.us).toBeLessThanOrEqual(SLO / 4);
        at += 20_000;
      }
    }),
  );
});
