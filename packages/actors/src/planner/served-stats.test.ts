import type { Role } from "@tutti/protocol";
import { actorKey } from "@tutti/units";
import { beforeEach, expect, test } from "vitest";
import { ServedStats } from "./served-stats.ts";

let servedStats: ServedStats;
beforeEach(() => {
  servedStats = new ServedStats();
});

const tell = (key: number, figures: Record<string, number>, model = 4, role: Role = "ingress"): void =>
  servedStats.note({ key: actorKey(key), role }, [{ model, figures }]);
const since = (step = "a", model = 4) => servedStats.since("mlp", { model, step });
const NONE = { good: 0, bad: 0, compared: 0, mismatched: 0 };

test("what came since the step began is counted over all ingresses and executors, each from its second report on", () => {
  tell(1, { ok: 1_000 });
  expect(since()).toEqual(NONE);
  tell(1, { ok: 1_010, late: 2 });
  tell(2, { ok: 500 });
  tell(2, { ok: 505, "refused.TUTTI_OVERLOADED": 3 });
  tell(3, { shadowCompared: 10, shadowDiffer: 1 }, 4, "executor");
  tell(3, { shadowCompared: 30, shadowDiffer: 2 }, 4, "executor");
  expect(since()).toEqual({ good: 13, bad: 5, compared: 20, mismatched: 1 });
});

test("another step or another model begins anew", () => {
  tell(1, { ok: 0 });
  since();
  tell(1, { ok: 10 });
  expect(since().good).toBe(10);
  expect(since("b")).toEqual(NONE);
  tell(1, { ok: 15 });
  expect(since("b").good).toBe(5);
  expect(since("b", 5)).toEqual(NONE);
});

test("a publisher's own faults are nobody's, and an ingress that began anew counts from its start", () => {
  tell(1, { ok: 100 });
  since();
  tell(1, { ok: 7, "refused.TUTTI_INVALID_INPUT": 9, "refused.TUTTI_CANCELLED": 9, "refused.TUTTI_NOT_FOUND": 9 });
  expect(since()).toEqual({ ...NONE, good: 7 });
});

test("what is watched no longer is forgotten, and of more actors than are kept the longest silent", () => {
  tell(1, { ok: 0 });
  since();
  tell(1, { ok: 5 });
  servedStats.watchOnly(new Set());
  expect(since()).toEqual(NONE);
  for (let key = 2; key <= 4_097; key++) tell(key, { ok: 0 });
  // The first actor was forgotten: its next report counts as its first again.
  tell(1, { ok: 50 });
  expect(since()).toEqual(NONE);
  tell(4_097, { ok: 3 });
  expect(since().good).toBe(3);
});
