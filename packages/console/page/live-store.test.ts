import fc from "fast-check";
import { expect, test } from "vitest";
import type { FeedBatches, FeedHistory, FeedModel, FeedRefusal, FeedState } from "../src/feed.ts";
import { HISTORY_MODELS_MAX, HISTORY_POINTS_MAX, History } from "../src/history.ts";
import { BARS_KEPT, BARS_LAST_MS, LiveStore, OPERATIONS_KEPT, REFUSALS_KEPT } from "./live-store.ts";

const model = (name: string, more: Partial<FeedModel> = {}): FeedModel => ({
  ...{ name, number: 1, state: "ready", reason: "", offered: 10, good: 9, late: 0, refused: { OVERLOADED: 1 } },
  ...{ queue: 2, batchMean: 3, target: 4, p99Ms: 20, sloMs: 25, ...more },
});
const state = (at: number, models: readonly FeedModel[]): FeedState => ({
  ...{
    at,
    missing: [],
    models,
    modelsLeft: 0,
    gpus: [],
    gpusLeft: 0,
    actors: [],
    actorsLeft: 0,
    jobs: [],
    jobsLeft: 0,
  },
  record: { arrivals: 0, seconds: 0, left: 0 },
});
/** Batches that ended so many µs before. */
const batches = (at: number, agos: readonly number[]): FeedBatches => ({
  at,
  left: 0,
  rows: agos.flatMap((ago) => [1, 0, 4, 0, ago + 9_000, ago + 5_000, ago + 4_000, ago]),
});

const REFUSAL: FeedRefusal = { at: 1, model: "a", code: "X", text: "", app: "shop", id: "order-1", trace: "" };

test("a batch's times are those of the cluster, and what is older than a minute goes", () => {
  const store = new LiveStore();
  store.apply("batches", batches(100_000, [1_000]), 0);
  expect(store.bars).toEqual([
    { model: 1, gpu: 0, size: 4, failed: 0, first: 99_990, granted: 99_994, start: 99_995, end: 99_999 },
  ]);
  store.apply("batches", batches(100_000 + BARS_LAST_MS + 5_000, [0]), 0);
  expect(store.bars.map(({ end }) => end)).toEqual([100_000 + BARS_LAST_MS + 5_000]);
});

test("a gateway of an earlier release, which tells of no jobs, is one without jobs", () => {
  const store = new LiveStore();
  const { jobs: _, jobsLeft: _left, ...earlier } = state(1_000, []);
  store.apply("state", earlier as FeedState, 0);
  expect(store.state).toMatchObject({ at: 1_000, jobs: [], jobsLeft: 0 });
});

test("a page that opens has the gateway's history, and goes on with its own", () => {
  const past = new History();
  for (let s = 1; s <= 20; s++) past.note(s, [model("a", { queue: s })]);
  const store = new LiveStore();
  store.apply("state", state(3_000, [model("old")]), 0);
  const { at, models } = JSON.parse(JSON.stringify(past.toFeed())) as FeedHistory;
  store.apply("history", { at, models: [] }, 0);
  for (const one of models) store.apply("historyModel", one, 0);
  store.apply("state", state(20_900, [model("a", { queue: 99 })]), 0);
  store.apply("state", state(21_100, [model("a", { queue: 21 }), model("b")]), 0);
  expect(store.history.at).toEqual([...past.at, 21]);
  expect(store.history.models.get("a")!.queue).toEqual(store.history.at);
  expect(store.history.models.get("b")!.queue).toEqual([...past.at.map(() => null), 2]);
  expect([...store.history.models.keys()]).toEqual(["a", "b"]);
  expect(past.at).toHaveLength(20);
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
            Array.from({ length: one.count }, () => ({ ...REFUSAL, at: now })),
            now,
          );
        store.apply("operation", { at: now, what: "restart", text: "" }, now);
        const { at, models } = store.history;
        expect(at.length).toBeLessThanOrEqual(HISTORY_POINTS_MAX);
        expect(models.size).toBeLessThanOrEqual(HISTORY_MODELS_MAX);
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

test("a new connection begins with the whole, so nothing is told twice", () => {
  const store = new LiveStore();
  store.apply("refusals", [REFUSAL], 0);
  store.apply("hello", { cluster: "main", policies: [], restart: "closed", traces: false }, 0);
  store.apply("refusals", [REFUSAL], 0);
  expect(store.refusals).toEqual([REFUSAL]);
});
