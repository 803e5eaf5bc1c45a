import fc from "fast-check";
import { expect, test } from "vitest";
import type { FeedBatches, FeedModel, FeedState } from "../src/feed.ts";
import {
  BARS_KEPT,
  BARS_LAST_MS,
  HISTORY_MODELS,
  HISTORY_S,
  LiveStore,
  OPERATIONS_KEPT,
  REFUSALS_KEPT,
  goodShare,
} from "./live-store.ts";

const model = (name: string, more: Partial<FeedModel> = {}): FeedModel => ({
  ...{ name, number: 1, state: "ready", reason: "", offered: 10, good: 9, late: 0, refused: { OVERLOADED: 1 } },
  ...{ queue: 2, batchMean: 3, target: 4, p99Ms: 20, sloMs: 25, ...more },
});
const state = (at: number, models: readonly FeedModel[]): FeedState => ({
  ...{ at, missing: [], models, modelsLeft: 0, gpus: [], gpusLeft: 0, actors: [], actorsLeft: 0 },
  record: { arrivals: 0, seconds: 0, left: 0 },
});
/** Batches that ended so many µs before. */
const batches = (at: number, agos: readonly number[]): FeedBatches => ({
  at,
  left: 0,
  rows: agos.flatMap((ago) => [1, 0, 4, 0, ago + 9_000, ago + 5_000, ago + 4_000, ago]),
});

test("a batch's times are those of the cluster, and what is older than a minute goes", () => {
  const store = new LiveStore();
  store.apply("batches", batches(100_000, [1_000]), 0);
  expect(store.bars).toEqual([
    { model: 1, gpu: 0, size: 4, failed: 0, first: 99_990, granted: 99_994, start: 99_995, end: 99_999 },
  ]);
  store.apply("batches", batches(100_000 + BARS_LAST_MS + 5_000, [0]), 0);
  expect(store.bars.map(({ end }) => end)).toEqual([100_000 + BARS_LAST_MS + 5_000]);
});

test("history has a point a second, columns of one length, and gaps where a model was not there", () => {
  const store = new LiveStore();
  store.apply("state", state(10_000, [model("a")]), 10_000);
  store.apply("state", state(10_400, [model("a")]), 10_400);
  store.apply("state", state(11_000, [model("b")]), 11_000);
  const { at, models } = store.history;
  expect(at).toEqual([10, 11]);
  expect(models.get("a")!.queue).toEqual([2, null]);
  expect(models.get("b")!.queue).toEqual([null, 2]);
  expect(models.get("a")!.goodShare).toEqual([0.9, null]);
});

test("whatever comes, and however much, is kept within bounds, with columns of one length (STORE-1)", () => {
  const event = fc.oneof(
    fc.record({
      kind: fc.constant("state" as const),
      step: fc.integer({ min: 0, max: 3_000 }),
      names: fc.array(fc.nat(200), { maxLength: 100 }),
    }),
    fc.record({ kind: fc.constant("batches" as const), count: fc.nat(9_000) }),
    fc.record({ kind: fc.constant("refusals" as const), count: fc.nat(150) }),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 25 }), (events) => {
      const store = new LiveStore();
      let now = 1_000_000;
      for (const one of events) {
        if (one.kind === "state") {
          now += one.step;
          store.apply(
            "state",
            state(
              now,
              [...new Set(one.names)].map((name) => model(`m${name}`)),
            ),
            now,
          );
        } else if (one.kind === "batches")
          store.apply(
            "batches",
            batches(
              now,
              Array.from({ length: one.count }, () => 0),
            ),
            now,
          );
        else
          store.apply(
            "refusals",
            Array.from({ length: one.count }, () => ({ at: now, model: "a", code: "X", text: "" })),
            now,
          );
        store.apply("operation", { at: now, what: "restart", text: "" }, now);
        const { at, models } = store.history;
        expect(models.size).toBeLessThanOrEqual(HISTORY_MODELS);
        for (const { queue, p99 } of models.values())
          expect([queue.length, p99.length]).toEqual([at.length, at.length]);
        expect(store.bars.length).toBeLessThanOrEqual(BARS_KEPT);
        expect(store.refusals.length).toBeLessThanOrEqual(REFUSALS_KEPT);
        expect(store.operations.length).toBeLessThanOrEqual(OPERATIONS_KEPT);
      }
    }),
    { numRuns: 25 },
  );
});

test("the history ends after some minutes, and models that have gone leave it", () => {
  const store = new LiveStore();
  store.apply("state", state(0, [model("gone"), model("stays")]), 0);
  for (let s = 1; s <= HISTORY_S + 5; s++) store.apply("state", state(1_000 * s, [model("stays")]), 0);
  expect(store.history.at).toHaveLength(HISTORY_S);
  expect([...store.history.models.keys()]).toEqual(["stays"]);
});

test("a new connection begins with the whole, so nothing is told twice", () => {
  const store = new LiveStore();
  const refusal = { at: 1, model: "a", code: "X", text: "" };
  store.apply("refusals", [refusal], 0);
  store.apply("hello", { cluster: "main", policies: [], restart: "closed", traces: false }, 0);
  store.apply("refusals", [refusal], 0);
  expect(store.refusals).toEqual([refusal]);
});

test("the good share is of what was decided: what waits counts neither way", () => {
  expect(goodShare({ good: 9, late: 0.5, refused: { OVERLOADED: 0.5 } })).toBe(0.9);
  expect(goodShare({ good: 0, late: 0, refused: {} })).toBeNull();
  expect(goodShare({ good: null, late: null, refused: { OVERLOADED: 5 } })).toBe(0);
});
