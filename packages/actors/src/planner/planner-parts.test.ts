import type { StatsReported } from "@tutti/protocol";
import { type Instant, actorKey, gpuId, instant, jobThreadOf, micros, seconds, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { LoadStats, bucketShares, isOutOfBand } from "./load-stats.ts";
import { PendingMoves } from "./pending-moves.ts";
import { ReasonLog } from "./plan-reporter.ts";
import { RateMeter } from "./rate-meter.ts";

const at = (s: number): Instant => instant(Math.round(s * 1e6));
const totals = (): RateMeter => new RateMeter({ window: seconds(5), silence: seconds(3) });
const row = (id: number, count: number) => [{ id, figures: { count } }];

test("totals become rates over the window, added up over actors, whatever the moments at which they report", () => {
  const meter = totals();
  for (let s = 0; s <= 20; s++) {
    meter.note({ key: actorKey(1), at: at(s) }, row(7, 10 * s), at(s));
    meter.note({ key: actorKey(2), at: at(s + 0.4) }, row(7, 500 + 5 * s), at(s + 0.4));
  }
  expect(meter.rates(at(20.5), "count").get(7)).toBeCloseTo(15, 9);
  // A step shows at once between the last two reports, and within the window in the rate.
  meter.note({ key: actorKey(1), at: at(21) }, row(7, 300), at(21));
  expect(meter.latest(at(21), "count").get(7)).toBeCloseTo(105, 9);
  expect(meter.rates(at(21), "count").get(7)).toBeCloseTo(5 + (300 - 160) / 5, 9);
});

test("an actor that starts counts from its second report, one that begins anew counts nothing, one that is silent is forgotten", () => {
  const meter = totals();
  meter.note({ key: actorKey(1), at: at(0) }, row(7, 1_000), at(0));
  expect(meter.rates(at(0), "count").get(7)).toBeUndefined();
  meter.note({ key: actorKey(1), at: at(1) }, row(7, 3), at(1));
  expect(meter.rates(at(1), "count").get(7)).toBe(0);
  expect(meter.rates(at(5), "count").size).toBe(0);
});

test("of more actors than are kept the newcomers wait until one is silent", () => {
  const meter = totals();
  for (let key = 1; key <= 4_097; key++) {
    meter.note({ key: actorKey(key), at: at(0) }, row(key, 0), at(0));
    meter.note({ key: actorKey(key), at: at(1) }, row(key, 1), at(0));
  }
  expect(meter.rates(at(0), "count").size).toBe(4_096);
  meter.note({ key: actorKey(4_097), at: at(9) }, row(4_097, 0), at(9));
  meter.note({ key: actorKey(4_097), at: at(10) }, row(4_097, 1), at(10));
  expect([...meter.rates(at(10), "count").keys()]).toEqual([4_097]);
});

const stats = (role: StatsReported["role"], s: number, rest: Partial<StatsReported>): StatsReported => ({
  ...{ key: actorKey(1), role, at: at(s), figures: {} },
  ...rest,
});

test("requests that more accelerators could have spared count as bad, and those of their publisher's making apart", () => {
  const loadStats = new LoadStats();
  const figures = { offered: 0, ok: 0, late: 0 };
  const thread = threadId(3, 0);
  loadStats.note(stats("ingress", 0, { perThread: [{ thread, name: "m", figures }] }), at(0));
  const later = {
    ...{ offered: 100, ok: 80, late: 5, "refused.TUTTI_OVERLOADED": 4, "refused.TUTTI_DEADLINE_EXCEEDED": 1 },
    ...{ "refused.TUTTI_DEADLINE_INFEASIBLE": 6, "refused.TUTTI_INVALID_INPUT": 9 },
  };
  loadStats.note(stats("ingress", 1, { perThread: [{ thread, name: "m", figures: later }] }), at(1));
  expect(loadStats.models(at(1)).get(3)).toEqual({ rate: 100, latestRate: 100, ok: 75, bad: 10, infeasible: 6 });
});

test("a model is used when an ingress has more requests for it than in its last report", () => {
  const loadStats = new LoadStats();
  const note = (s: number, ...offered: readonly number[]): number[] => {
    const perThread = offered.map((count, i) => ({ thread: threadId(i, 0), name: "m", figures: { offered: count } }));
    return loadStats.note(stats("ingress", s, { perThread }), at(s));
  };
  // Nobody knows when the requests of one that has just been heard came.
  expect([note(0, 5), note(1, 5), note(2, 6, 1), note(2.1, 7, 1), note(3, 7, 1)]).toEqual([[], [], [0, 1], [0], []]);
});

test("a model whose jobs come is used, and no rate counts them", () => {
  const loadStats = new LoadStats();
  const note = (s: number, offered: number): number[] => {
    const perJobThread = [{ thread: jobThreadOf(threadId(4, 0)), name: "m", figures: { offered } }];
    return loadStats.note(stats("ingress", s, { perJobThread }), at(s));
  };
  expect([note(0, 5), note(1, 5), note(2, 9)]).toEqual([[], [], [4]]);
  expect(loadStats.models(at(2)).size).toBe(0);
});

test("accelerators that run jobs are idle to requests", () => {
  const loadStats = new LoadStats();
  const gpus = (busyUs: number, jobsUs: number) => [{ gpu: gpuId(0), figures: { busyUs, jobsUs } }];
  loadStats.note(stats("executor", 0, { perGpu: gpus(0, 0) }), at(0));
  loadStats.note(stats("executor", 1, { perGpu: gpus(1_000_000, 700_000) }), at(1));
  expect(loadStats.busy(at(1)).busy).toBeCloseTo(0.3, 9);
});

test("accelerators are as busy as their executors say, each at most all of its time", () => {
  const loadStats = new LoadStats();
  const gpus = (a: number, b: number) => [a, b].map((busyUs, gpu) => ({ gpu: gpuId(gpu), figures: { busyUs } }));
  loadStats.note(stats("executor", 0, { perGpu: gpus(0, 0) }), at(0));
  loadStats.note(stats("executor", 1, { perGpu: gpus(250_000, 3_000_000) }), at(1));
  expect(loadStats.busy(at(1))).toEqual({ gpus: 2, busy: 1.25 });
});

test("a model's requests are split over its buckets as batchers saw them, or evenly", () => {
  const threads = new Map([[threadId(1, 0), 30], [threadId(1, 1), 10]]); // prettier-ignore
  expect(bucketShares(threads, 1, 2)).toEqual([0.75, 0.25]);
  expect(bucketShares(threads, 2, 4)).toEqual([0.25, 0.25, 0.25, 0.25]);
});

test("a rate leaves its band by a fifth that is no chance", () => {
  expect(isOutOfBand(100, 119)).toBe(false);
  expect(isOutOfBand(100, 130)).toBe(true);
  expect(isOutOfBand(100, 70)).toBe(true);
  // Five requests in five seconds more than the five that were planned with are chance.
  expect(isOutOfBand(1, 2)).toBe(false);
  expect(isOutOfBand(0, 50)).toBe(true);
});

test("an epoch's budget is used up by moves that balance, and there again an epoch later", () => {
  const pendingMoves = new PendingMoves(seconds(30));
  const models = [{ memoryBytes: 100 }, { memoryBytes: 900 }];
  expect(pendingMoves.budget(models, 0.1, at(0))).toBe(1_800);
  const move = { number: 1, from: "a", to: "b", cost: 200, isForced: false };
  pendingMoves.note([move, { ...move, cost: 5_000, isForced: true }], at(0));
  expect(pendingMoves.budget(models, 0.1, at(29))).toBe(1_600);
  expect(pendingMoves.budget(models, 0.1, at(30))).toBe(1_800);
});

test("a move that isn't over after two epochs is stuck, and its model stays for a while", () => {
  const pendingMoves = new PendingMoves(seconds(30));
  const moving = { epoch: 1, madeAt: at(0), models: [{ number: 1, subCluster: "a", next: "b" }], gpus: [] };
  expect([pendingMoves.lookAt(moving, at(0)), pendingMoves.lookAt(moving, at(60))]).toEqual([false, false]);
  expect(pendingMoves.marksOf(1)).toEqual({ isPinned: false, isStuck: false });
  expect([pendingMoves.lookAt(moving, at(61)), pendingMoves.lookAt(moving, at(62))]).toEqual([true, false]);
  expect(pendingMoves.marksOf(1)).toEqual({ isPinned: true, isStuck: true });
  const back = { ...moving, models: [{ number: 1, subCluster: "a" }] };
  pendingMoves.lookAt(back, at(63));
  expect(pendingMoves.marksOf(1)).toEqual({ isPinned: true, isStuck: false });
  pendingMoves.lookAt(back, at(400));
  expect(pendingMoves.marksOf(1)).toEqual({ isPinned: false, isStuck: false });
});

test("a reason stays as long as it is the last of its kind, and the oldest of many are forgotten", () => {
  const reasonLog = new ReasonLog();
  reasonLog.note({ reasons: [{ about: "m", text: "is placed in a" }] }, at(1));
  reasonLog.note({ reasons: [{ about: "m", text: "is placed in a" }] }, at(2));
  expect(reasonLog.list()).toEqual([{ at: at(1), about: "m", text: "is placed in a" }]);
  for (let i = 0; i < 300; i++) reasonLog.note({ reasons: [{ about: `m${i}`, text: "x".repeat(5_000) }] }, at(3));
  expect(reasonLog.list()).toHaveLength(256);
  expect(reasonLog.list()[0]?.about).toBe("m44");
  expect(reasonLog.list()[0]?.text).toHaveLength(1_000);
});

test("the window of a rate is what the band reckons chance by", () => {
  expect(isOutOfBand(100, 130, micros(100_000))).toBe(false);
});
