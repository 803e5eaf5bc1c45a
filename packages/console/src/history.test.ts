import fc from "fast-check";
import { expect, test } from "vitest";
import {
  HISTORY_COLUMNS,
  HISTORY_MODELS_MAX,
  HISTORY_POINTS_MAX,
  History,
  type HistoryModel,
  goodShare,
} from "./history.ts";

const model = (name: string, more: Partial<HistoryModel> = {}): HistoryModel => ({
  ...{ name, good: 9, late: 0, refused: { OVERLOADED: 1 }, queue: 2, batchMean: 3, target: 4, p99Ms: 20, sloMs: 25 },
  ...more,
});

test("history has a point a second, columns of one length, and gaps where a model was not there", () => {
  const history = new History();
  history.note(10, [model("a")]);
  history.note(10, [model("a", { queue: 7 })]);
  history.note(11, [model("b")]);
  expect(history.at).toEqual([10, 11]);
  expect(history.models.get("a")).toMatchObject({ queue: [2, null], goodShare: [0.9, null], slo: 25 });
  expect(history.models.get("b")!.queue).toEqual([null, 2]);
});

test("the busiest models are charted, however many idle ones were there before (HISTORY-1)", () => {
  const history = new History();
  const idle = (i: number): HistoryModel =>
    model(`m${i}`, { ...{ good: 0, late: 0, refused: {}, queue: 0, batchMean: null, p99Ms: null } });
  const models = Array.from({ length: HISTORY_MODELS_MAX + 2 }, (_, i) => idle(i));
  history.note(1, models);
  const last = models.length - 1;
  const busy = (i: number): HistoryModel => model(`m${i}`);
  history.note(2, [busy(last), ...models.slice(0, last)]);
  expect(history.models.get(`m${last}`)).toMatchObject({ good: [null, 9] });
  expect([history.models.has("m0"), history.models.size]).toEqual([false, HISTORY_MODELS_MAX]);
  // One that had requests stays for as long as they are charted.
  history.note(3, [busy(last - 1), ...models.slice(0, last - 1), idle(last)]);
  expect([last, last - 1].map((i) => history.models.has(`m${i}`))).toEqual([true, true]);
  for (const { good } of history.models.values()) expect(good).toHaveLength(3);
});

test("the history ends after fifteen minutes, and models that have gone leave it (HISTORY-1)", () => {
  const history = new History();
  history.note(0, [model("gone"), model("stays")]);
  for (let s = 1; s <= HISTORY_POINTS_MAX + 5; s++) history.note(s, [model("stays")]);
  expect(history.at).toHaveLength(HISTORY_POINTS_MAX);
  expect(history.at.at(-1)! - history.at[0]!).toBe(15 * 60 - 1);
  expect([...history.models.keys()]).toEqual(["stays"]);
});

test("the history is bounded, ordered, and the same after its way to a page (HISTORY-1)", () => {
  const point = fc.record({
    step: fc.integer({ min: -1, max: 3 }),
    names: fc.uniqueArray(fc.nat(200), { maxLength: 100 }),
  });
  fc.assert(
    fc.property(fc.array(point, { maxLength: 40 }), (points) => {
      const history = new History();
      let second = 1_000;
      for (const { step, names } of points)
        history.note(
          (second += step),
          names.map((name) => model(`m${name}`, { good: name === 3 ? null : name })),
        );
      expect(history.at).toEqual([...new Set(history.at)].sort((a, b) => a - b));
      expect(history.models.size).toBeLessThanOrEqual(HISTORY_MODELS_MAX);
      for (const one of history.models.values())
        for (const column of HISTORY_COLUMNS) expect(one[column]).toHaveLength(history.at.length);
      const page = new History();
      page.note(5, [model("of an earlier connection")]);
      page.restore(JSON.parse(JSON.stringify(history.toFeed())));
      expect(page).toEqual(history);
    }),
    { numRuns: 50 },
  );
});

test("nearly all in time is not all in time", () => {
  const history = new History();
  history.note(1, [model("a", { good: 99_999, late: 1, refused: {} })]);
  expect(history.models.get("a")!.goodShare).toEqual([0.9999]);
});

test("the good share is of what was decided: what waits counts neither way", () => {
  expect(goodShare({ good: 9, late: 0.5, refused: { OVERLOADED: 0.5 } })).toBe(0.9);
  expect(goodShare({ good: 0, late: 0, refused: {} })).toBeNull();
  expect(goodShare({ good: null, late: null, refused: { OVERLOADED: 5 } })).toBe(0);
});
