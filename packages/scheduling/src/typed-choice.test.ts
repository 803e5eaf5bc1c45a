import { LatencyTable } from "@tutti/profile";
import { type ActorKey, type GpuId, type Instant, type Micros, type RequestSeq, micros, threadId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  Cluster,
  type DispatchedBatch,
  type Grant,
  type ModelEffects,
  type ModelEvent,
  type Request,
  createModelThread,
  nextWakeAt,
  step,
} from "./index.ts";

const FAST = LatencyTable.affine({ alpha: 263, beta: 1_268, batchSizeMax: 64 });
const SLOW = LatencyTable.affine({ alpha: 4 * 263, beta: 4 * 1_268, batchSizeMax: 64 });
const [FAST_TYPE, SLOW_TYPE] = [{ type: 0 }, { type: 1 }];
const COMMON = {
  term: 1,
  epoch: 1,
  policy: { kind: "deferred" },
  patience: 1,
  gather: "head",
  queueMax: 1_000,
} as const;
const NO_DELAYS = { ctrl: 0 as Micros, perItem: 0 as Micros, respond: 0 as Micros, guard: 0 as Micros };

const request = (seq: number, arrivedAt: number, deadline: number): Request => ({
  ...{ ingress: 1 as ActorKey, seq: seq as RequestSeq, app: 0, size: 0 },
  ...{ arrivedAt: arrivedAt as Instant, deadline: deadline as Instant, slo: (deadline - arrivedAt) as Micros },
});

/** A model that both types serve, with requests of these deadlines at time 0. */
function queued(deadlines: readonly number[]) {
  const model = createModelThread({
    ...{ ...COMMON, ...NO_DELAYS, thread: threadId(0, 0), slo: 12_000 as Micros, batchesInFlightMax: 9 },
    ...{ profile: SLOW, fastest: { profile: FAST, unfit: [SLOW_TYPE] } },
  });
  const batches: DispatchedBatch[] = [];
  const used: boolean[] = [];
  const refused: number[] = [];
  const out: ModelEffects = {
    offer: () => undefined,
    answerGrant: (_, isUsed) => void used.push(isUsed),
    dispatch: (batch) => void batches.push(batch),
    refuse: ({ seq }) => void refused.push(seq),
  };
  const send = (event: ModelEvent): void => step(model, event, out);
  for (const [i, deadline] of deadlines.entries())
    send({ kind: "request-arrived", at: 0 as Instant, request: request(i + 1, 0, deadline) });
  const grant = (own?: LatencyTable): readonly number[] => {
    const ids = { thread: model.thread, term: 1, offerSeq: model.offered.offerSeq, gpu: 0 as GpuId, epoch: 1 };
    const times = { freeAt: 0 as Instant, sentAt: 0 as Instant, validUntil: 100 as Instant, scarcity: 0 };
    const given: Grant = { ...ids, ...times, executor: 2 as ActorKey, grantSeq: used.length + 1 };
    send({ kind: "gpu-granted", at: 0 as Instant, grant: given, ...(own !== undefined && { own }) });
    return batches.at(-1)?.requests.map(({ seq }) => seq) ?? [];
  };
  const tick = (at: number): void => send({ kind: "clock-reached", at: at as Instant });
  return { model, grant, tick, batches, used, refused };
}

test("worked: a slow accelerator takes the first requests that it can serve, and a fast one all of them (TYPED-2)", () => {
  const deadlines = [4_000, 5_000, 9_000, 12_000, 12_000];
  const slow = queued(deadlines);
  expect(slow.model.offered).toMatchObject({ unfit: [], batchSize: 3, latest: 9_000 - 8_228 });
  expect(slow.grant()).toEqual([3, 4, 5]);
  expect(slow.batches[0]).toMatchObject({ expectedRun: 8_228, startAt: 0 });
  // the others are offered to the fast type alone (TYPED-3)
  expect(slow.model.offered).toMatchObject({ unfit: [SLOW_TYPE], batchSize: 2, latest: 4_000 - 1_794 });
  const fast = queued(deadlines);
  expect(fast.grant(FAST)).toEqual([1, 2, 3, 4, 5]);
  expect(fast.batches[0]).toMatchObject({ expectedRun: 2_583 });
});

test("a slow accelerator that is granted to requests which only a fast one can serve is given back", () => {
  const { grant, used, model } = queued([4_000, 5_000]);
  expect(model.offered.unfit).toEqual([SLOW_TYPE]);
  expect(grant()).toEqual([]);
  expect(used).toEqual([false]);
  expect(grant(FAST)).toEqual([1, 2]);
});

test("what even the fast type can't serve is dropped when that is so, and not before (TYPED-1)", () => {
  const { model, tick, refused } = queued([8_000, 12_000]);
  for (let at = nextWakeAt(model); at < 20_000; at = nextWakeAt(model)) {
    tick(at);
    expect(refused).toEqual(at > 12_000 - 1_531 ? [1, 2] : at > 8_000 - 1_531 ? [1] : []);
  }
  expect(refused).toEqual([1, 2]);
});

const arrivals = fc.array(
  fc.record({ gap: fc.integer({ min: 0, max: 4_000 }), slo: fc.integer({ min: 1_000, max: 30_000 }) }),
  { minLength: 1, maxLength: 120 },
);

test("every batch ends in time on the type that is granted, every request ends once, and none is lost that was alone", () => {
  fc.assert(
    fc.property(
      arrivals,
      fc.record({ fast: fc.integer({ min: 1, max: 3 }), slow: fc.integer({ min: 1, max: 3 }) }),
      fc.integer({ min: 2, max: 8 }),
      fc.constantFrom("deferred", "eager", "adaptive"),
      fc.constantFrom("head", "target"),
      (drawn, { fast, slow }, times, kind, gather) => {
        const table = LatencyTable.affine({ alpha: 263 * times, beta: 1_268 * times, batchSizeMax: 64 });
        const ended = new Map<number, string>();
        const end = (seq: number, how: string): void => {
          expect(ended.has(seq), `request ${seq} ends twice`).toBe(false);
          ended.set(seq, how);
        };
        const cluster = new Cluster({
          gpus: fast + slow,
          models: [
            {
              ...{ ...COMMON, ...NO_DELAYS, policy: { kind }, gather, thread: threadId(0, 0), slo: 30_000 as Micros },
              ...{ profile: table, fastest: { profile: FAST, unfit: [SLOW_TYPE] }, batchesInFlightMax: 99 },
            },
          ],
          ctrl: micros(0),
          typeOf: (gpu) => (gpu < fast ? FAST_TYPE.type : SLOW_TYPE.type),
          ownProfile: (_, gpu) => (gpu < fast ? FAST : undefined),
          listener: {
            dispatched: ({ requests, grant, expectedRun, startAt, latest }) => {
              const own = grant.gpu < fast ? FAST : table;
              expect(expectedRun).toBe(own.latency(requests.length));
              expect(startAt).toBeLessThanOrEqual(latest);
            },
            refused: ({ seq }, cause) => end(seq, cause),
            finished: ({ requests }, _, at) => {
              for (const { seq, deadline } of requests) {
                expect(at).toBeLessThanOrEqual(deadline);
                end(seq, "served");
              }
            },
          },
        });
        let at = 0;
        for (const [i, { gap, slo }] of drawn.entries()) {
          at += gap;
          cluster.arrive(0, request(i + 1, at, at + slo));
        }
        cluster.runUntilIdle();
        expect(ended.size).toBe(drawn.length);
        if (drawn.length === 1) expect(ended.get(1)).toBe(drawn[0]!.slo >= 1_531 ? "served" : "infeasible");
      },
    ),
    { numRuns: 300 },
  );
});
