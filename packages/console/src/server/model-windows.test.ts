import type { StatsReported } from "@tutti/protocol";
import { type Instant, type ThreadId, actorKey } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { WINDOW_S } from "../index.ts";
import { ModelWindows, REPORTERS_MAX, REPORTS_KEPT_MAX } from "./model-windows.ts";

const START_S = 1_000;
const at = (s: number): Instant => ((START_S + s) * 1e6) as Instant;
const report = (
  role: "ingress" | "batcher",
  s: number,
  figures: Record<string, number>,
  { key = 1, thread = 64 } = {},
): StatsReported => ({
  ...{ key: actorKey(key), role, at: at(s), figures: {} },
  perThread: [{ thread: thread as ThreadId, name: "m", figures }],
});
const hear = (windows: ModelWindows, stats: StatsReported, heardAt = stats.at): void => windows.hear(stats, heardAt);
const ofModel = (windows: ModelWindows, s: number, number = 1) => windows.figures(at(s)).get(number);

test("a row's share, refusals and latency are of the same ten seconds: what is older has left all of them", () => {
  const windows = new ModelWindows();
  // Ten requests a second; those of second 5 are late or refused.
  const [ok, late, refused] = [
    (s: number) => 10 * s - (s >= 5 ? 4 : 0),
    (s: number) => (s >= 5 ? 3 : 0),
    (s: number) => (s >= 5 ? 4 : 0),
  ];
  for (let s = 0; s <= 15; s++) {
    const figures = { offered: 10 * s, ok: ok(s), late: late(s), "refused.TUTTI_OVERLOADED": refused(s), p99Us: 7 };
    hear(windows, report("ingress", s, figures));
    const window = ofModel(windows, s)!;
    const isInside = s >= 5 && s <= 14;
    if (s === 0) {
      expect(window).toMatchObject({ offered: undefined, good: undefined, p99Us: 7 });
      continue;
    }
    const lasted = Math.min(s, WINDOW_S);
    expect(window.offered, `${s}`).toBeCloseTo(10);
    expect(window.late, `${s}`).toBeCloseTo(isInside ? 3 / lasted : 0);
    expect(window.refused, `${s}`).toEqual(isInside ? { OVERLOADED: 4 / lasted } : {});
    expect(window.good, `${s}`).toBeCloseTo(10 - (isInside ? 7 / lasted : 0));
  }
});

test("actors add up, buckets of a model too, and the highest p99 and target count", () => {
  const windows = new ModelWindows();
  for (const s of [0, 2]) {
    hear(windows, report("ingress", s, { offered: 8 * s, ok: 6 * s, late: s, p99Us: 900 }));
    hear(windows, report("ingress", s, { offered: 2 * s, ok: 2 * s, p99Us: 300 }, { key: 2 }));
    const perThread = [64, 65].map((thread) => {
      const figures = { queued: 3, target: thread - 60, batches: s, items: s * (thread - 60) };
      return { thread: thread as ThreadId, name: "m", figures };
    });
    hear(windows, { ...report("batcher", s, {}, { key: 3 }), perThread });
  }
  expect(ofModel(windows, 2)).toEqual({
    ...{ offered: 10, good: 7, late: 1, refused: {}, queue: 6, batchMean: 4.5, target: 5, p99Us: 900 },
  });
  // A silent actor's figures no longer count; the others' do.
  hear(windows, report("ingress", 6, { offered: 48, ok: 36, late: 6, p99Us: 100 }));
  expect(ofModel(windows, 8)).toMatchObject({ offered: 8, queue: 0, target: undefined, p99Us: 100 });
});

test("totals that begin anew, and models that are new, never make a rate negative or too high", () => {
  const windows = new ModelWindows();
  hear(windows, report("ingress", 0, { offered: 1_000, ok: 1_000 }));
  hear(windows, report("ingress", 2, { offered: 10, ok: 10 }));
  expect(ofModel(windows, 2)).toMatchObject({ offered: 5, good: 5 });
  hear(windows, report("ingress", 4, { offered: 8, ok: 8 }, { thread: 128 }));
  expect(ofModel(windows, 4, 2)).toMatchObject({ offered: 2, good: 2 });
});

test("of reports only a window's are kept, however many come, of so many actors (WINDOW-1)", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 3_000 }), { maxLength: 200 }), (steps) => {
      const windows = new ModelWindows();
      let ms = 0;
      const told: { at: number; offered: number }[] = [];
      for (const [i, step] of steps.entries()) {
        ms += step;
        told.push({ at: ms, offered: i });
        hear(windows, report("ingress", ms / 1_000, { offered: i }));
      }
      const kept = told.slice(-REPORTS_KEPT_MAX);
      const last = kept.at(-1);
      if (last === undefined) return;
      const first = kept.findLast(({ at: time }) => last.at - time >= 1_000 * WINDOW_S) ?? kept[0]!;
      const expected =
        last.at === first.at ? undefined : (1_000 * (last.offered - first.offered)) / (last.at - first.at);
      const { offered } = ofModel(windows, ms / 1_000)!;
      if (expected === undefined) expect(offered).toBeUndefined();
      else expect(offered).toBeCloseTo(expected, 3);
    }),
  );
  const windows = new ModelWindows();
  for (let key = 1; key <= REPORTERS_MAX + 5; key++)
    for (const s of [0, 1]) hear(windows, report("ingress", s, { offered: s }, { key }));
  expect(ofModel(windows, 1)!.offered).toBeCloseTo(REPORTERS_MAX);
});

test("an actor whose clock is wrong is silent when nothing comes, and not before", () => {
  const windows = new ModelWindows();
  for (const s of [0, 2]) {
    hear(windows, report("ingress", s - 60, { offered: 10 * s, ok: 10 * s }), at(s));
    hear(windows, report("ingress", s + 60, { offered: s, ok: s }, { key: 2 }), at(s));
  }
  expect(ofModel(windows, 4)).toMatchObject({ offered: 11 });
  expect(ofModel(windows, 8)).toBeUndefined();
});
