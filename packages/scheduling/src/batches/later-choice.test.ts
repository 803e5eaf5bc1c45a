/** Requests whose costs have several steps: docs/algorithms.md, B8. */
import { LatencyTable } from "@tutti/profile";
import type { ActorKey, BatchId, GpuId, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type DispatchedBatch,
  type ModelEffects,
  type Request,
  createModelThread,
  nextWakeAt,
  queueLength,
  step,
} from "../index.ts";

const ZERO = 0 as Micros;
const ms = (count: number): Instant => Math.round(1_000 * count) as Instant;

/** B8's worked example: l(b) = b + 5 ms, batches of at most 8, SLO 12 ms, no delays, target 1, deferred. */
function example(queueMax = 100) {
  const model = createModelThread({
    ...{ thread: 64 as ThreadId, term: 1, epoch: 1, slo: ms(12) as unknown as Micros, policy: { kind: "deferred" } },
    profile: LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 8 }),
    ...{ patience: 1, gather: "head", guard: ZERO, ctrl: ZERO, perItem: ZERO, respond: ZERO },
    ...{ queueMax, batchesInFlightMax: 4 },
  });
  const batches: DispatchedBatch[] = [];
  const refused: string[] = [];
  const out: ModelEffects = {
    offer: () => undefined,
    answerGrant: () => undefined,
    dispatch: (batch) => void batches.push(batch),
    refuse: (request, cause) => void refused.push(`${request.seq} ${cause} at ${model.now / 1_000}`),
  };
  let grants = 0;
  return {
    ...{ model, batches, refused, out },
    /** Offsets of the steps in ms, with costs. */
    arrive: (at: number, seq: number, ...steps: [after: number, cost: number][]) => {
      const request: Request = {
        ...{ ingress: 1 as ActorKey, seq: seq as RequestSeq, app: 0, size: 0, slo: ms(12) as unknown as Micros },
        ...{ arrivedAt: ms(at), deadline: ms(at + 12) },
        ...(steps.length > 0 && { steps: steps.map(([after, cost]) => ({ deadline: ms(at + after), cost })) }),
      };
      step(model, { kind: "request-arrived", at: ms(at), request }, out);
    },
    tick: (at: number) => step(model, { kind: "clock-reached", at: ms(at) }, out),
    grant: (at: number) => {
      const ids = { thread: model.thread, term: 1, offerSeq: model.offered.offerSeq, gpu: 0 as GpuId };
      const grant = { ...ids, executor: 7 as ActorKey, epoch: 1, grantSeq: ++grants, freeAt: ms(at), sentAt: ms(at) };
      const event = { ...grant, validUntil: ms(at + 1), scarcity: 0 };
      step(model, { kind: "gpu-granted", at: ms(at), grant: event }, out);
    },
    last: () => {
      const { requests, startAt, latest, expectedRun } = batches.at(-1)!;
      const seqs = requests.map(({ seq }) => Number(seq));
      return { seqs, start: startAt / 1_000, latest: latest / 1_000, end: (startAt + expectedRun) / 1_000 };
    },
  };
}

const STEPS: [number, number][] = [
  [12, 1],
  [40, 3],
];

test("B8: requests that miss their SLO wait for their second step, and fill the next batch (worked example)", () => {
  const { arrive, tick, grant, last, refused, model } = example();
  for (const seq of [1, 2, 3]) arrive(0, seq, ...STEPS);
  tick(6.001); // alone they end at 12.001
  expect([queueLength(model), refused]).toEqual([3, []]);
  arrive(8, 4);
  grant(10);
  expect(last()).toEqual({ seqs: [4, 1, 2, 3], start: 10, latest: 11, end: 19 });
  expect([queueLength(model), refused]).toEqual([0, []]);
});

test("B8: alone they start at once, and without an accelerator they are refused at the last step (worked example)", () => {
  const served = example();
  for (const seq of [1, 2, 3]) served.arrive(0, seq, ...STEPS);
  served.tick(6.001);
  served.grant(10);
  expect(served.last()).toEqual({ seqs: [1, 2, 3], start: 10, latest: 32, end: 18 });

  const { arrive, tick, refused, model } = example();
  arrive(0, 1, ...STEPS);
  arrive(0, 2);
  tick(6.001);
  expect(refused).toEqual(["2 infeasible at 6.001"]);
  tick(34);
  expect([queueLength(model), nextWakeAt(model)]).toEqual([1, ms(34.001)]);
  tick(34.001);
  expect([queueLength(model), refused.at(-1)]).toEqual([0, "1 infeasible at 34.001"]);
});

test("those that aim at a later step never make a batch smaller, nor a member late (LATE-1)", () => {
  const { arrive, tick, grant, last } = example();
  for (let seq = 1; seq <= 8; seq++) arrive(0, seq, ...STEPS);
  tick(6.001);
  for (let seq = 11; seq <= 15; seq++) arrive(8, seq);
  grant(10.5); // five end at 20.5, not by 20: four run, and one of their own kind is left behind
  expect(last().seqs).toEqual([11, 12, 13, 14]);
  grant(20); // the last of them is too late now
  expect(last()).toMatchObject({ seqs: [1, 2, 3, 4, 5, 6, 7, 8], start: 20, end: 33 });
});

test("a third step follows the second (LATE-2), and one at which the cost stays is passed over", () => {
  const { arrive, tick, model, refused } = example();
  arrive(0, 1, [12, 1], [20, 2], [60, 3]);
  arrive(0, 2, [12, 1], [20, 1], [30, 2]);
  tick(6.001);
  expect(nextWakeAt(model)).toBe(ms(13.001)); // both together
  tick(13.001);
  expect(nextWakeAt(model)).toBe(ms(14.001));
  tick(14.001);
  expect(nextWakeAt(model)).toBe(ms(23.001));
  tick(23.001);
  expect(nextWakeAt(model)).toBe(ms(24.001));
  tick(24.001);
  expect([refused, nextWakeAt(model)]).toEqual([["2 infeasible at 24.001"], ms(54.001)]);
});

test("they can be withdrawn, are put back when their batch is refused, and come once when they are sent again (M1)", () => {
  const { arrive, tick, grant, batches, model, out } = example();
  for (const seq of [1, 2]) arrive(0, seq, ...STEPS);
  tick(6.001);
  arrive(6.001, 1, ...STEPS); // repair
  expect(queueLength(model)).toBe(2);
  step(model, { kind: "request-withdrawn", at: ms(7), ingress: 1 as ActorKey, seq: 1 as RequestSeq }, out);
  expect(queueLength(model)).toBe(1);
  grant(8);
  expect(queueLength(model)).toBe(0);
  step(model, { kind: "batch-refused", at: ms(9), batchId: batches[0]!.batchId satisfies BatchId }, out);
  expect(queueLength(model)).toBe(1);
  step(model, { kind: "ingress-lost", at: ms(9), ingress: 1 as ActorKey }, out);
  expect([queueLength(model), nextWakeAt(model)]).toEqual([0, Infinity]);
});

test("the queue's bound counts them (M6)", () => {
  const { arrive, tick, refused, model } = example(2);
  for (const seq of [1, 2]) arrive(0, seq, ...STEPS);
  tick(6.001);
  arrive(7, 3, ...STEPS);
  arrive(7, 4, ...STEPS);
  tick(13.001);
  expect([queueLength(model), refused.length]).toEqual([2, 2]);
});
