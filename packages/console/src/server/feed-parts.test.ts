import { REPORTED_BATCHES_MAX, REPORTED_REFUSALS_MAX, type BatchReport, batchRow } from "@tutti/protocol";
import type { Instant } from "@tutti/units";
import { expect, test } from "vitest";
import { EndedBatches, FEED_BATCHES_MAX } from "./ended-batches.ts";
import { RecentRefusals, REFUSALS_KEPT_MAX } from "./recent-refusals.ts";

const AT = 1e15 as Instant;

test("of batches so many wait for the page's next tick, and the others are counted", () => {
  const ended = new EndedBatches();
  const batch = { thread: 64, gpu: 0, size: 1, failed: 0, firstAt: AT, grantedAt: AT, startedAt: AT, finishedAt: AT };
  const rows = Array.from({ length: REPORTED_BATCHES_MAX }, () => batchRow(batch as unknown as BatchReport, AT)).flat();
  for (let i = 0; i < 5; i++) expect(ended.hear({ at: AT, batches: { left: 1, rows } })).toBe(true);
  const told = ended.take(AT)!;
  expect(told.rows).toHaveLength(8 * FEED_BATCHES_MAX);
  expect(told.left).toBe(5 + 5 * REPORTED_BATCHES_MAX - FEED_BATCHES_MAX);
  expect(ended.take(AT)).toBeUndefined();
  expect(ended.hear({ at: AT, batches: { left: 0, rows: [1] } })).toBe(false);
});

test("the last refusals are kept for who opens the page later, and no more of them", () => {
  const fresh: string[] = [];
  const recent = new RecentRefusals((refusals) => fresh.push(...refusals.map(({ text }) => text)));
  for (let i = 0; i < 20; i++) {
    const refusals = Array.from({ length: REPORTED_REFUSALS_MAX }, (_, j) => {
      return { at: AT, model: "mlp", code: "TUTTI_OVERLOADED" as const, text: `${i}.${j}` };
    });
    expect(recent.hear({ refusals })).toBe(true);
  }
  expect(recent.all).toHaveLength(REFUSALS_KEPT_MAX);
  expect(recent.all.at(-1)?.text).toBe(`19.${REPORTED_REFUSALS_MAX - 1}`);
  expect(fresh).toHaveLength(20 * REPORTED_REFUSALS_MAX);
  expect(recent.hear({ refusals: [{}] as never })).toBe(false);
});
