import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { adaptationTo } from "../adaptation/adaptation.ts";
import { SustainedLoss } from "./sustained-loss.ts";

const at = (seconds: number): Instant => (seconds * 1_000_000) as Instant;

function pass(loss: SustainedLoss, came: number, lost: number): void {
  for (let i = 0; i < came; i++) loss.came();
  for (let i = 0; i < lost; i++) loss.lost();
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

test("only the target changes under overload, for bursty arrivals more than for even ones", () => {
  for (const dispersion of [NaN, 1, 2.5, 10]) {
    const [calm, overloaded] = [adaptationTo(dispersion), adaptationTo(dispersion, true)];
    expect(overloaded.early).toBe(calm.early);
    expect(overloaded.target).toBe(0.9);
    expect(overloaded.target).toBeGreaterThan(calm.target);
  }
});
