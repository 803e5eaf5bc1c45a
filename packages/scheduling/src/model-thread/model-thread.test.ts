import { LatencyTable } from "@tutti/profile";
import {
  ALWAYS,
  type ActorKey,
  type BatchId,
  type GpuId,
  type Instant,
  type Micros,
  NEVER,
  type RequestSeq,
  type ThreadId,
} from "@tutti/units";
import { expect, test, vi } from "vitest";
import {
  type Candidate,
  type DispatchedBatch,
  type Grant,
  type ModelEffects,
  type ModelEvent,
  type ModelThreadConfig,
  type Request,
  createModelThread,
  currentTarget,
  inFlight,
  nextWakeAt,
  offeredCandidate,
  queueLength,
  step,
} from "../index.ts";

const MODEL = 64 as ThreadId;
const profile = LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 8 });

/** A model under test, with its effects. l(b) = b + 5 ms, no delays, SLO 12 ms by default. */
function thread(more: Partial<ModelThreadConfig> = {}) {
  const zero = 0 as Micros;
  const model = createModelThread({
    ...{ thread: MODEL, term: 3, epoch: 5, profile, slo: 12_000 as Micros, policy: { kind: "deferred" as const } },
    ...{ patience: 1, gather: "head" as const, guard: zero, ctrl: zero, perItem: zero, respond: zero },
    ...{ queueMax: 10, batchesInFlightMax: 4, ...more },
  });
  const offers: Candidate[] = [];
  const answers: { used: boolean; freeAt: number; offerSeq: number }[] = [];
  const batches: DispatchedBatch[] = [];
  const refused: { seq: number; cause: string; feasible: number }[] = [];
  const order: string[] = [];
  const out: ModelEffects = {
    offer: (c) => (offers.push({ ...c }), order.push("offer")),
    answerGrant: (_, used, freeAt, offerSeq) => (answers.push({ used, freeAt, offerSeq }), order.push("answer")),
    dispatch: (batch) => (batches.push(batch), order.push("dispatch")),
    refuse: ({ seq }, cause, feasible) => (refused.push({ seq, cause, feasible }), order.push("refuse")),
  };
  const send = (event: ModelEvent) => step(model, event, out);
  let grants = 0;
  return {
    ...{ model, offers, answers, batches, refused, order, send },
    arrive: (at: number, seq: number, o: { slo?: number; ingress?: number; isOwn?: boolean } = {}) => {
      const slo = (o.slo ?? 12_000) as Micros;
      const times = { deadline: (at + slo) as Instant, arrivedAt: at as Instant, slo };
      const ids = { ingress: (o.ingress ?? 1) as ActorKey, seq: seq as RequestSeq };
      send({
        kind: "request-arrived",
        at: at as Instant,
        request: { ...ids, ...times, app: 0, size: 0, ...(o.isOwn === true && { isOwn: true }) } satisfies Request,
      });
    },
    grant: (at: number, o: Partial<Grant> = {}, own?: LatencyTable) => {
      const grant: Grant = {
        ...{
          thread: MODEL,
          term: 3,
          offerSeq: model.offered.offerSeq,
          gpu: 2 as GpuId,
          executor: 7 as ActorKey,
          epoch: 5,
        },
        ...{
          grantSeq: ++grants,
          freeAt: ALWAYS,
          sentAt: at as Instant,
          validUntil: (at + 400) as Instant,
          scarcity: 0,
          ...o,
        },
      };
      send({ kind: "gpu-granted", at: at as Instant, grant, ...(own !== undefined && { own }) });
    },
    tick: (at: number) => send({ kind: "clock-reached", at: at as Instant }),
  };
}
const at = (us: number) => us as Instant;

test("a grant is answered after its batch and before the next offer, which has a later number (M2)", () => {
  const { arrive, grant, order, answers, batches, offers } = thread({
    profile: LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 2 }),
  });
  for (const seq of [1, 2, 3]) arrive(0, seq);
  order.length = 0;
  grant(4000);
  expect(order).toEqual(["dispatch", "answer", "offer"]);
  expect(batches[0]).toMatchObject({ term: 3, startAt: 4000, expectedRun: 7000, frontrun: -Infinity, latest: 5000 });
  expect(batches[0]!.requests.map((r) => r.seq)).toEqual([1, 2]);
  expect(answers).toEqual([{ used: true, freeAt: 11_000, offerSeq: offers.at(-2)!.offerSeq }]);
  expect(offers.at(-1)!.offerSeq).toBeGreaterThan(answers[0]!.offerSeq);
});

test("on a faster accelerator than planned more requests run in the same time, and it is free when they end", () => {
  const slow = LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 8 });
  const fast = LatencyTable.affine({ alpha: 250, beta: 1250, batchSizeMax: 8 });
  const story = (own?: LatencyTable) => {
    const { arrive, grant, batches, answers, model } = thread({ profile: slow });
    for (let seq = 1; seq <= 6; seq++) arrive(0, seq);
    grant(4000, {}, own);
    expect(model.latencies).toBe(slow.byBatchSize);
    const { startAt, expectedRun, requests, latest } = batches[0]!;
    return { startAt, expectedRun, size: requests.length, latest, freeAt: answers[0]!.freeAt };
  };
  expect(story()).toEqual({ startAt: 4000, expectedRun: 8000, size: 3, latest: 4000, freeAt: 12_000 });
  expect(story(fast)).toEqual({ startAt: 4000, expectedRun: 2750, size: 6, latest: 9250, freeAt: 6750 });
  // One that is slower than planned, or whose largest batches are unknown, gets the batch as planned.
  const slower = LatencyTable.affine({ alpha: 2000, beta: 5000, batchSizeMax: 8 });
  const short = LatencyTable.affine({ alpha: 250, beta: 1250, batchSizeMax: 4 });
  for (const own of [slower, short]) expect(story(own)).toEqual(story());
});

test.for([
  ["of an older epoch", { epoch: 4 }],
  ["of another term", { term: 2 }],
  ["of another model", { thread: 128 as ThreadId }],
  ["after validUntil", { validUntil: at(3999) }],
] as const)("a grant %s gets neither an answer nor a batch (M3, T5)", ([, wrong]) => {
  const { arrive, grant, answers, batches, model } = thread();
  arrive(0, 1);
  grant(4000, wrong);
  expect([answers, batches, queueLength(model)]).toEqual([[], [], 1]);
});

test("a repeated grant is obeyed once, and one that a newer grant of its accelerator has overtaken not at all (M3)", () => {
  const { arrive, grant, answers } = thread();
  for (const seq of [1, 2, 3]) arrive(0, seq);
  grant(4000, { grantSeq: 9 });
  grant(4000, { grantSeq: 9 });
  grant(4000, { grantSeq: 8 });
  expect(answers).toHaveLength(1);
  grant(4000, { grantSeq: 10 });
  expect(answers.map(({ used }) => used)).toEqual([true, false]);
  expect(answers[1]!.freeAt).toBe(4000); // returned at once: nothing is queued
});

test("a newer epoch is entered by its first grant or by notice; then everything is offered again", () => {
  const { arrive, grant, answers, offers, send, model } = thread();
  arrive(0, 1);
  arrive(0, 2);
  expect(offers).toHaveLength(2);
  send({ kind: "ranker-changed", at: at(10), epoch: 6 });
  expect(offers.at(-1)).toMatchObject({ batchSize: 2, offerSeq: 3 });
  send({ kind: "ranker-changed", at: at(11), epoch: 6 });
  expect(offers).toHaveLength(3);
  grant(20, { epoch: 5 });
  expect(answers).toEqual([]);
  grant(5000, { epoch: 7 });
  expect([answers.length, model.epoch]).toEqual([1, 7]);
});

test("another sub-cluster's leader is offered to whatever its epoch, with a higher number than any before; a grant of the first one is not obeyed twice after coming back", () => {
  const { arrive, grant, answers, offers, send, model } = thread();
  arrive(0, 1);
  arrive(0, 2);
  grant(4000, { epoch: 7, grantSeq: 3 });
  expect(answers).toHaveLength(1);
  arrive(4100, 3);
  const before = offers.at(-1)!;
  send({ kind: "sub-cluster-changed", at: at(4200), epoch: 5 });
  expect(model.epoch).toBe(5);
  expect(offers.at(-1)).toMatchObject({ batchSize: 1, offerSeq: before.offerSeq + 2 });
  send({ kind: "sub-cluster-changed", at: at(4300), epoch: 7 });
  grant(4400, { epoch: 7, grantSeq: 3 }); // repeated on the way
  expect(answers).toHaveLength(1);
  grant(8000, { epoch: 7, grantSeq: 4 });
  expect(answers).toHaveLength(2);
});

test("a grant for a head that is gone is declined when the rest is not due yet, and only once", () => {
  const { arrive, grant, answers, batches, send, offers } = thread({ ctrl: 100 as Micros });
  arrive(0, 1);
  arrive(3000, 2);
  send({ kind: "request-withdrawn", at: at(3100), ingress: 1 as ActorKey, seq: 1 as RequestSeq });
  grant(3200, { offerSeq: 2, freeAt: at(1000) }); // sent for the batch of 1 and 2
  expect(answers).toEqual([{ used: false, freeAt: 1000, offerSeq: offers[2]!.offerSeq }]);
  expect(offers.at(-1)).toMatchObject({ batchSize: 1, execAt: 3000 + 12_000 - 7000 });
  grant(3300); // the ranker insists
  expect([answers.length, batches.length]).toEqual([2, 1]);
});

test("an accelerator that frees before the batch is due runs it when it is due", () => {
  const { arrive, grant, batches } = thread();
  arrive(0, 1);
  grant(1000, { freeAt: at(2000) });
  expect(batches[0]!.startAt).toBe(12_000 - 7000);
});

test("at the invalidation timer what can no longer be met is refused, with the SLO that would have been feasible", () => {
  const { arrive, tick, refused, model, offers } = thread();
  arrive(0, 1);
  expect(nextWakeAt(model)).toBe(6001);
  tick(6000);
  expect(refused).toEqual([]);
  tick(6001);
  expect(refused).toEqual([{ seq: 1, cause: "infeasible", feasible: 12_001 }]);
  expect(offers.at(-1)).toMatchObject({ batchSize: 0 });
  expect([nextWakeAt(model), queueLength(model)]).toEqual([NEVER, 0]);
});

test("dropped for the target batch is 'overloaded', impossible alone is 'infeasible' (T3)", () => {
  const { arrive, refused } = thread({ gather: "target", targetBatch: 4 });
  arrive(0, 1, { slo: 5999 });
  arrive(10, 2, { slo: 7000 });
  arrive(20, 3, { slo: 9000 });
  arrive(30, 4, { slo: 9000 });
  expect(refused.map((r) => [r.seq, r.cause])).toEqual([
    [1, "infeasible"],
    [2, "overloaded"],
  ]);
});

test("a full queue refuses, and nothing else happens (M6, T7)", () => {
  const { arrive, refused, model, offers } = thread({ queueMax: 2 });
  for (const seq of [1, 2, 3]) arrive(0, seq);
  expect(refused).toEqual([{ seq: 3, cause: "overloaded", feasible: Infinity }]);
  expect([queueLength(model), offers.length]).toEqual([2, 2]);
});

test("what a full queue refuses counts as lost, like all else that is refused (A12)", () => {
  const { arrive, model } = thread({ queueMax: 2 });
  expect(model.shares.isLasting(at(1))).toBe(false); // its window begins
  for (let seq = 1; seq <= 4; seq++) arrive(1 + seq, seq);
  expect(model.shares.isLasting(at(2_000_001))).toBe(true);
});

test("an arrival that is repeated while queued changes nothing", () => {
  const { arrive, model, offers } = thread();
  arrive(0, 1);
  arrive(5, 1);
  expect([queueLength(model), offers.length]).toEqual([1, 1]);
});

test("that time passes is no news: an arrival behind a full batch makes no offer", () => {
  const { arrive, offers, model } = thread({
    profile: LatencyTable.affine({ alpha: 1000, beta: 5000, batchSizeMax: 2 }),
  });
  for (const [i, seq] of [1, 2, 3, 4].entries()) arrive(100 * i, seq);
  expect(offers).toHaveLength(2);
  expect(offeredCandidate(model)).toMatchObject({ batchSize: 2, offerSeq: 2 });
});

test("a refused batch queues again, less what was withdrawn meanwhile and what can't be met any more (T4, M1)", () => {
  const { arrive, grant, send, model, refused, batches } = thread();
  arrive(0, 1, { slo: 9500 });
  arrive(0, 2, { slo: 30_000 });
  arrive(0, 3, { slo: 29_000, ingress: 2 });
  arrive(0, 4, { slo: 30_000 });
  grant(1000);
  const { batchId, requests } = batches[0]!;
  expect(requests.map((r) => r.seq)).toEqual([1, 3, 2]);
  send({ kind: "ingress-lost", at: at(2000), ingress: 2 as ActorKey });
  send({ kind: "batch-refused", at: at(4000), batchId });
  expect([queueLength(model), inFlight(model)]).toEqual([2, 0]); // 2 and 4
  expect(refused.map((r) => r.seq)).toEqual([1]);
  send({ kind: "batch-refused", at: at(4000), batchId });
  send({ kind: "batch-finished", at: at(4000), batchId });
  expect(queueLength(model)).toBe(2);
});

test("the batches of a lost executor queue again; a finished one does not", () => {
  const { arrive, grant, send, model, batches } = thread();
  for (const seq of [1, 2, 3]) arrive(0, seq, { slo: 60_000 });
  for (const seq of [4, 5]) arrive(0, seq, { slo: 60_000 });
  grant(10, { executor: 7 as ActorKey });
  arrive(20, 6, { slo: 60_000 });
  grant(30, { executor: 8 as ActorKey, gpu: 3 as GpuId });
  expect(batches.map((b) => b.requests.length)).toEqual([5, 1]);
  send({ kind: "batch-finished", at: at(40), batchId: batches[1]!.batchId });
  send({ kind: "executor-lost", at: at(50), executor: 8 as ActorKey });
  expect(queueLength(model)).toBe(0);
  send({ kind: "executor-lost", at: at(50), executor: 7 as ActorKey });
  expect([queueLength(model), inFlight(model)]).toEqual([5, 0]);
});

test("with all batches in flight nothing is offered, until one is done or past its deadline (HB1)", () => {
  const { arrive, grant, send, offers, batches, answers } = thread({ batchesInFlightMax: 1 });
  arrive(0, 1);
  grant(100);
  arrive(200, 2);
  expect(offers).toHaveLength(1);
  grant(300);
  expect(answers.at(-1)).toMatchObject({ used: false });
  send({ kind: "batch-finished", at: at(400), batchId: batches[0]!.batchId });
  expect(offers.at(-1)).toMatchObject({ batchSize: 1 });
  grant(500);
  arrive(13_000, 3); // the report on request 2 is lost, but its deadline is past
  expect(offers.at(-1)).toMatchObject({ batchSize: 1 });
  send({ kind: "batch-finished", at: at(13_000), batchId: 99 as BatchId });
});

test("each policy waits for its own start (A6)", () => {
  const execOf = (more: Partial<ModelThreadConfig>) => {
    const { arrive, offers } = thread(more);
    arrive(0, 1);
    arrive(500, 2);
    return offers.at(-1)!.execAt;
  };
  expect(execOf({})).toBe(12_000 - 8000);
  expect(execOf({ guard: 300 as Micros })).toBe(12_000 - 8000 - 300);
  expect(execOf({ policy: { kind: "eager" } })).toBe(500);
  expect(execOf({ policy: { kind: "timeout", wait: 1200 as Micros } })).toBe(1200);
  expect(execOf({ policy: { kind: "timeout", wait: 90_000 as Micros } })).toBe(5000); // its latest start
  expect(execOf({ policy: { kind: "latest" } })).toBe(5000);
  expect(execOf({ policy: { kind: "beta-lambda" } })).toBe(500); // β·λ is below 2 at this rate
  expect(execOf({ patience: 0 })).toBe(500);
  expect(execOf({ patience: 0.5 })).toBe(2000);
});

test("βλ defers while waiting for one more pays: b < β·λ (A6)", () => {
  const { arrive, offers } = thread({ policy: { kind: "beta-lambda" }, queueMax: 10_000, slo: 40_000 as Micros });
  // 1,000 r/s that can't be served: β·λ = 5
  for (let seq = 1; seq <= 500; seq++) arrive(seq * 1000, seq, { slo: 1000 });
  arrive(501_000, 501, { slo: 40_000 });
  expect(offers.at(-1)!.execAt).toBe(541_000 - 7000);
});

test("requests of several SLOs gather towards the target of the head's own SLO (A7)", () => {
  const large = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
  const { arrive, model } = thread({ gather: "target", profile: large, slo: 25_000 as Micros, queueMax: 100_000 });
  for (let seq = 1; seq <= 5000; seq++) arrive(seq * 200, seq, { slo: 25_000 });
  expect(currentTarget(model)).toBe(15);
  expect(model.targets.forSlo(70_000 as Micros)).toBeGreaterThan(40);
  expect(model.targets.forSlo(7000 as Micros)).toBe(1);
});

test("a due batch shrinks rather than lose its head to what arrives while its grant is on the way (M7)", () => {
  const run = (ctrl: number) => {
    const { arrive, grant, refused, batches } = thread({ gather: "target", targetBatch: 4, ctrl: ctrl as Micros });
    for (const seq of [1, 2, 3]) arrive(0, seq);
    // frontrun of 3: 12 − 9 = 3 ms; its plan is due at 3 ms − ctrl, and a fourth can't join after that.
    arrive(3000 - ctrl + 50, 4);
    grant(3000 - ctrl + 200, { offerSeq: 3, sentAt: at(3100 - ctrl) });
    return { refused: refused.map((r) => r.seq), sizes: batches.map((b) => b.requests.map((r) => r.seq)) };
  };
  expect(run(1000)).toEqual({ refused: [], sizes: [[1, 2, 3]] });
  expect(run(0)).toEqual({ refused: [1], sizes: [[2, 3, 4]] }); // A2 as printed: the grant is late here
});

test("a head that the batch leaves behind is refused when it can't run even alone, though the batch can wait longer (T3)", () => {
  const { model, arrive, tick, refused } = thread();
  model.isOverloaded = true;
  for (const [time, seq] of [
    [0, 1],
    [4000, 2],
    [4000, 3],
    [4500, 4],
  ] as const)
    arrive(time, seq);
  // A run of 3 (2, 3, 4) serves 3/8 in a ms; with the head it is 2/7, by 12 ms.
  expect([model.batchSize, model.skipped, model.latest]).toEqual([3, 1, 8000]);
  expect(nextWakeAt(model)).toBe(6001);
  tick(6001);
  expect(refused.map(({ seq, cause }) => [seq, cause])).toEqual([[1, "infeasible"]]);
});

test("new delays and a new profile change the window at once", () => {
  const { arrive, send, offers } = thread();
  arrive(0, 1);
  const delays = { ctrl: 200 as Micros, perItem: 50 as Micros, respond: 0 as Micros, guard: 100 as Micros };
  send({ kind: "delays-changed", at: at(10), ...delays });
  expect(offers.at(-1)).toMatchObject({ delay: 250, execAt: 12_000 - 7000 - 50 - 100, latest: 6000 });
  const slower = LatencyTable.affine({ alpha: 1000, beta: 9000, batchSizeMax: 8 });
  send({ kind: "profile-changed", at: at(20), profile: slower });
  expect(offers.at(-1)).toMatchObject({ latest: 2000 });
});

test("time that runs backwards is a broken invariant", () => {
  const { arrive, tick } = thread();
  arrive(100, 1);
  expect(() => tick(99)).toThrow("backwards");
});

test("requests that come too late to be served are a sign of overload, and those of an SLO that can't be met are none (M8)", () => {
  const overloaded = (slo: number, lag: number): boolean => {
    const { model, arrive, grant, send, refused } = thread({ batchesInFlightMax: 1_000 });
    for (let i = 1; i <= 20; i++) {
      arrive(i * 200, i);
      if (i % 5 === 0) grant(i * 200);
    }
    for (let i = 21; i <= 4_000; i++) {
      const arrivedAt = at(i * 200);
      const times = { arrivedAt, deadline: (arrivedAt + slo) as Instant, slo: slo as Micros };
      const ids = { ingress: 1 as ActorKey, seq: i as RequestSeq, app: i % 2, size: 0 };
      send({ kind: "request-arrived", at: at(i * 200 + lag), request: { ...ids, ...times } });
    }
    expect(refused.length).toBeGreaterThan(3_000);
    return model.shares.isLimiting;
  };
  expect(overloaded(12_000, 11_000)).toBe(true);
  expect(overloaded(5_000, 0)).toBe(false);
});

test("an accelerator counts as idle if it was that for longer than a hop takes: one that ended early and was granted at once was not", () => {
  const { arrive, grant, model } = thread({ ctrl: 1_000 as Micros, slo: 40_000 as Micros });
  const dispatched = vi.spyOn(model.shares, "dispatched");
  arrive(0, 1);
  grant(4_000, { freeAt: at(3_800) });
  arrive(4_000, 2);
  grant(8_000, { freeAt: at(6_900) });
  arrive(8_000, 3);
  grant(12_000, { freeAt: at(12_800) });
  const run = model.profile.latency(1);
  expect(dispatched.mock.calls.map(([, { idleFor, run }]) => [idleFor, run])).toEqual([
    [0, run],
    [1_100, run],
    [0, run],
  ]);
});

test("a warm-up request that waits for an accelerator says nothing of how scarce accelerators are", () => {
  for (const [isOwn, level] of [
    [true, 0],
    [false, 1],
  ] as const) {
    const { model, arrive, grant, batches } = thread({ policy: { kind: "adaptive" }, prefer: "latency" });
    arrive(0, 1, { isOwn });
    grant(0, { freeAt: 5_000 as Instant });
    expect(batches).toHaveLength(1);
    expect(model.scarcity.level(0)).toBe(level);
  }
});
