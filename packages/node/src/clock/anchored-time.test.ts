import fc from "fast-check";
import { expect, test } from "vitest";
import { instant } from "@tutti/units";
import { AnchoredTime, SLEW_MAX } from "./anchored-time.ts";
import { OffsetBounds, measureOffset } from "./wall-offset.ts";

test("time never steps back and never runs more than 500 ppm fast or slow, however the wall clock jumps (N1, N2)", () => {
  const step = fc.record({
    pass: fc.double({ min: 0, max: 5e6, noNaN: true }),
    jump: fc.integer({ min: -1e7, max: 1e7 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const time = new AnchoredTime(1.8e15);
      let monotonic = 1e9;
      let last = time.at(monotonic);
      for (const { pass, jump } of steps) {
        monotonic += pass;
        const now = time.at(monotonic);
        expect(now).toBeGreaterThanOrEqual(last);
        expect(Math.abs(now - last - pass)).toBeLessThanOrEqual(pass * SLEW_MAX + 2);
        last = now;
        time.correct(monotonic, 1.8e15 + jump);
        expect(Math.abs(time.at(monotonic) - now)).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test("after a jump of the wall clock time reaches it, and not before 500 ppm allow", () => {
  const time = new AnchoredTime(1_000_000);
  time.correct(0, 1_010_000);
  expect([time.at(0), time.at(10e6), time.at(20e6), time.at(30e6)]).toEqual([
    1_000_000, 11_005_000, 21_010_000, 31_010_000,
  ]);
  expect([time.errorAt(0), time.errorAt(10e6), time.errorAt(20e6)]).toEqual([10_000, 5_000, 0]);
  expect(time.monotonicAt(instant(32_010_000), 30e6)).toBe(31e6);
});

test("the offset is found to a microsecond from a wall clock of whole milliseconds", () => {
  let monotonic = 5_000_000;
  const offset = 1_795_000_000_123_456.7;
  const sources = {
    monotonicUs: () => (monotonic += 0.2),
    wallMs: () => Math.floor(((monotonic += 0.05) + offset) / 1_000),
  };
  const bounds = measureOffset(sources, 5_000);
  expect(Math.abs(bounds.middle - offset)).toBeLessThanOrEqual(1);
  expect(monotonic - 5_000_000).toBeLessThan(1_100);
  // interrupted at each reading for longer than a tick: as precise as possible within the budget
  const slow = measureOffset({ ...sources, monotonicUs: () => (monotonic += 1_500) }, 5_000);
  expect(slow.allow(offset)).toBe(true);
});

test("a wall clock that is set while it is measured counts as it is afterwards", () => {
  let monotonic = 0;
  const bounds = new OffsetBounds();
  const sources = { monotonicUs: () => (monotonic += 1), wallMs: () => 5_000 };
  bounds.sample(sources);
  bounds.sample({ ...sources, wallMs: () => 9_000 });
  expect([bounds.allow(5_000_500), bounds.allow(9_000_500)]).toEqual([false, true]);
});
