import { LatencyTable } from "@tutti/profile";
import type { Instant, Micros } from "@tutti/units";
import { expect, test } from "vitest";
import { BatchTargets } from "./batch-targets.ts";

const EXACT_MAX = 64;

test("beyond so many SLOs with a target of their own, the class stands for its members and asks for no more", () => {
  const profile = LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 64 });
  const zero = 0 as Micros;
  const targets = new BatchTargets(0, { profile, ctrl: zero, perItem: zero, respond: zero });
  targets.refresh(1_000_000 as Instant, 0.005, 1, 0);
  const exact = targets.forSlo(30_000 as Micros);
  for (let i = 1; i < EXACT_MAX; i++) targets.forSlo((40_000 + i) as Micros);
  // 30,001 is rounded down to the least SLO of its class, whose target can't be larger.
  const member = targets.forSlo(30_001 as Micros);
  expect(member).toBeGreaterThanOrEqual(1);
  expect(member).toBeLessThanOrEqual(exact);
  expect(targets.forSlo(34_000 as Micros)).toBe(member);
  expect(targets.forSlo(30_000 as Micros)).toBe(exact);
});
