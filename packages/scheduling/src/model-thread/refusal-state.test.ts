import { DeadlineQueue } from "@tutti/collections";
import { LatencyTable } from "@tutti/profile";
import type { ActorKey, GpuId, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";
import { ALWAYS } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type ModelEffects,
  type ModelEvent,
  type ModelThreadConfig,
  type RefusalState,
  type Request,
  createModelThread,
  refusalState,
  step,
} from "../index.ts";

const THREAD = 64 as ThreadId;
const DELAY = 100 as Micros;

/** A model with l(b) = b + 5 ms and delays of 0.1 ms, with the state of each refusal. */
function thread(more: Partial<ModelThreadConfig> = {}) {
  const model = createModelThread({
    ...{ thread: THREAD, term: 3, epoch: 5, slo: 12_000 as Micros, policy: { kind: "deferred" as const } },
    profile: LatencyTable.affine({ alpha: 1_000, beta: 5_000, batchSizeMax: 8 }),
    ...{ patience: 1, gather: "head" as const, guard: 0 as Micros, ctrl: DELAY, perItem: 0 as Micros, respond: DELAY },
    ...{ queueMax: 4, batchesInFlightMax: 4, ...more },
  });
  const states: RefusalState[] = [];
  const out: ModelEffects = {
    offer: () => undefined,
    answerGrant: () => undefined,
    dispatch: () => undefined,
    refuse: (request, _, feasible) => states.push(refusalState(model, request, feasible)),
  };
  const send = (event: ModelEvent): void => step(model, event, out);
  const arrive = (at: number, seq: number, slo = 12_000, app = 0): void =>
    send({
      ...{ kind: "request-arrived", at: at as Instant },
      request: {
        ...{ ingress: 1 as ActorKey, seq: seq as RequestSeq, arrivedAt: at as Instant, app, size: 0 },
        ...{ slo: slo as Micros, deadline: (at + slo) as Instant },
      },
    });
  return { model, states, send, arrive, tick: (at: number) => send({ kind: "clock-reached", at: at as Instant }) };
}

test("a request that no accelerator was granted in time waited for one, behind the batches that have them", () => {
  const { model, states, send, arrive, tick } = thread();
  arrive(0, 1);
  send({
    ...{ kind: "gpu-granted", at: 100 as Instant },
    grant: {
      ...{ thread: THREAD, term: 3, offerSeq: model.offered.offerSeq, gpu: 0 as GpuId, executor: 7 as ActorKey },
      ...{ epoch: 5, grantSeq: 1, freeAt: ALWAYS, sentAt: 100 as Instant, validUntil: 500 as Instant, scarcity: 0 },
    },
  });
  arrive(1_000, 2);
  arrive(9_000, 3);
  tick(12_000);
  expect(states).toEqual([{ waitedFor: "accelerator", queued: 1, inFlight: 1, alone: 6_200 }]);
});

test("a request that can't be met any more when it comes waited for nothing", () => {
  const { states, arrive } = thread();
  arrive(0, 1, 6_050);
  expect(states).toEqual([{ waitedFor: "nothing", queued: 0, inFlight: 0, alone: 6_200 }]);
});

test("a head that leaves before its batch was due waited for others", () => {
  const { model, states, arrive, send } = thread();
  arrive(0, 1);
  expect(model.headDueAt).toBeGreaterThan(2_000);
  const [ctrl, perItem, guard] = [11_000, 0, 0] as Micros[];
  send({ kind: "delays-changed", at: 1_500 as Instant, ctrl: ctrl!, perItem: perItem!, guard: guard!, respond: DELAY });
  expect(states).toMatchObject([{ waitedFor: "batch", queued: 0 }]);
});

test("a request that finds the queue full waited for room", () => {
  const { states, arrive } = thread({ policy: { kind: "deferred" }, queueMax: 2 });
  for (let seq = 1; seq <= 3; seq++) arrive(seq, seq);
  expect(states).toMatchObject([{ waitedFor: "room", queued: 2 }]);
});

test("a request beyond its share waited for that, though requests that missed a step of their costs are as many as fit", () => {
  const { model, arrive } = thread({ policy: { kind: "deferred" }, queueMax: 2 });
  arrive(1, 1);
  const request = model.queue.head()!;
  model.later = new DeadlineQueue<Request>(2);
  model.later.add({ ...request, seq: 2 as RequestSeq });
  const state = refusalState(model, request, Infinity as Micros);
  expect(state).toMatchObject({ waitedFor: "share", queued: 2 });
});
