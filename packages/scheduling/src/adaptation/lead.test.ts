import { millis } from "@tutti/units";
import { expect, test } from "vitest";
import { Lead } from "./lead.ts";

test("a lost request raises the lead by a thirty-second of the SLO, and two hundred that run take that back (LEAD-1)", () => {
  const lead = new Lead();
  const slo = millis(32);
  lead.note(1, 0, slo);
  expect(lead.at(0)).toBe(0);
  lead.note(0, 1, slo);
  expect(lead.at(0)).toBe(1_000);
  for (let i = 0; i < 100; i++) lead.note(1, 1, slo);
  expect(lead.at(0)).toBeCloseTo(500, 6);
  for (let i = 0; i < 200; i++) lead.note(1, 1, slo);
  expect(lead.at(0)).toBe(0);
  lead.note(1, 1_000, slo);
  expect(lead.at(0)).toBe(slo);
});

test("the lead counts as far as accelerators are idle (LEAD-2)", () => {
  const lead = new Lead();
  lead.note(0, 1, millis(32));
  expect([lead.at(0), lead.at(0.5), lead.at(1)]).toEqual([1_000, 250, 0]);
});
