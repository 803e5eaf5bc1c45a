import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { adaptationTo } from "../adaptation/adaptation.ts";
import { SustainedLoss } from "./sustained-loss.ts";

const at = (seconds: number): Instant => (seconds * 1_000_000) as Instant;

function pass(loss: SustainedLoss, came: number, lost: number, now = at(0)): void {
  for (let i = 0; i < came; i++) loss.came(now);
  for (let i = 0; i < lost; i++) loss.lost(now);
}

test("loss lasts once more than a tenth of a whole window was lost, and until a window in which less was", () => {
  const loss = new SustainedLoss();
  expect(loss.lasts(at(0))).toBe(false);
  pass(loss, 100, 100);
  expect(loss.lasts(at(1.9))).toBe(false);
  expect(loss.lasts(at(2))).toBe(true);
  pass(loss, 100, 10);
  expect(loss.lasts(at(3.9))).toBe(true);
  expect(loss.lasts(at(4))).toBe(false);
  expect(loss.lasts(at(60))).toBe(false);
});

test("a model that loses a burst within a window that is well as a whole is not overloaded", () => {
  const loss = new SustainedLoss();
  loss.lasts(at(0));
  pass(loss, 50, 50);
  pass(loss, 1_000, 0);
  expect(loss.lasts(at(2))).toBe(false);
});

test("what a flood lost counts no more after ten seconds and fifty requests without a loss", () => {
  for (const perSecond of [2, 5, 20]) {
    const loss = new SustainedLoss();
    for (let ms = 0; ms < 10_000; ms++) pass(loss, 1, 1, at(ms / 1_000));
    expect(loss.share).toBeGreaterThan(0.9);
    const forgotten = Math.max(50, 10 * perSecond);
    for (let i = 1; i < forgotten; i++) loss.came(at(10 + i / perSecond));
    expect(loss.share).toBeGreaterThan(0.1);
    pass(loss, 2, 0, at(10 + (forgotten + 1) / perSecond));
    expect(loss.share).toBe(0);
  }
});

test("what is lost now and then is remembered for a thousand requests, however long they take", () => {
  const loss = new SustainedLoss();
  const shares: number[] = [];
  for (let i = 0; i < 10_000; i++) {
    pass(loss, 1, i % 300 === 0 ? 1 : 0, at(i / 10)); // one in half a minute
    if (i >= 5_000) shares.push(loss.share);
  }
  expect(Math.min(...shares)).toBeGreaterThan(0.7 / 300);
  expect(Math.max(...shares)).toBeLessThan(1.3 / 300);
});

test("only the target changes under overload, for bursty arrivals more than for even ones", () => {
  for (const dispersion of [NaN, 1, 2.5, 10]) {
    const [calm, overloaded] = [adaptationTo(dispersion), adaptationTo(dispersion, true)];
    expect(overloaded.early).toBe(calm.early);
    expect(overloaded.target).toBe(0.9);
    expect(overloaded.target).toBeGreaterThan(calm.target);
  }
});
