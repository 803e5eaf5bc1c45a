import { expect, test } from "vitest";
import { type Instant, micros, seconds } from "@tutti/units";
import { LatenessMeter } from "./lateness.ts";

const at = (secondsIn: number): Instant => (1.8e15 + secondsIn * 1e6) as Instant;
const meterWith = (floor: number) => new LatenessMeter({ floor: micros(floor), window: seconds(10) }, at(0));

test("percentiles are those of what was recorded, to 7 %", () => {
  const meter = meterWith(0);
  for (let i = 1; i <= 10_000; i++) meter.record(i, at(1));
  const { p50, p90, p99, p999, fires, within100us } = meter.report(at(1));
  for (const [measured, exact] of [
    [p50, 5_000],
    [p90, 9_000],
    [p99, 9_900],
    [p999, 9_990],
  ] as const) {
    expect(measured / exact).toBeGreaterThanOrEqual(1);
    expect(measured / exact).toBeLessThanOrEqual(1.07);
  }
  expect([fires, within100us]).toEqual([10_000, 100]);
});

test("the guard is p99.9 of the window, never below the floor, and forgets what has left the window", () => {
  const meter = meterWith(100);
  expect(meter.guard(at(0))).toBe(100);
  for (let i = 0; i < 1_000; i++) meter.record(300, at(1));
  expect(meter.guard(at(5)) / 300).toBeCloseTo(1, 1);
  for (let s = 6; s < 40; s++) meter.record(10, at(s));
  expect(meter.guard(at(40))).toBe(100);
});

test("a bad second raises the guard to five times what is usual at most, and says so; lasting trouble moves what is usual", () => {
  const meter = meterWith(100);
  for (let s = 0; s < 60; s++) meter.record(80, at(s));
  meter.record(50_000, at(60));
  expect(meter.report(at(66))).toMatchObject({ guard: 500, capped: true });
  for (let s = 66; s < 600; s++) meter.record(2_000, at(s));
  const { guard, capped } = meter.report(at(600));
  expect([guard / 2_000 < 1.07, capped]).toEqual([true, false]);
  expect(guard).toBeGreaterThanOrEqual(2_000);
});

test("what is beyond the last bucket counts in it, and early fires count as punctual", () => {
  const meter = meterWith(0);
  meter.record(-1, at(1));
  meter.record(1e12, at(1));
  expect(meter.report(at(1)).p50).toBe(1);
  expect(meter.report(at(1)).p999).toBeGreaterThan(60e6);
});
