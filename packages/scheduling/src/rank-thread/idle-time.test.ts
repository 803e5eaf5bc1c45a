import { type GpuId, type Instant, type Micros, actorKey, gpuId, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import {
  type Candidate,
  type Grant,
  createRankThread,
  giveIdleTime,
  idleDelayOf,
  nextRankWakeAt,
  stepRank,
} from "../index.ts";

const EXECUTOR = actorKey(7);
/** The last accelerator is of another type. */
const TYPES = [0, 0, 0, 1];
const at = (us: number): Instant => us as Instant;

function ranked(gpus: number) {
  const rank = createRankThread({ epoch: 1, ctrl: 100 as Micros, gpusMax: 8 });
  const grants: Grant[] = [];
  const out = { grant: (grant: Grant) => void grants.push({ ...grant }), askGpu: () => undefined };
  const all = Array.from({ length: gpus }, (_, gpu) => gpuId(gpu));
  for (const gpu of all)
    stepRank(
      rank,
      { kind: "gpu-joined", at: at(0), gpu, executor: EXECUTOR, type: TYPES[gpu]!, freeAt: at(0), grantSeq: 0 },
      out,
    );
  let offerSeq = 0;
  return {
    rank,
    grants,
    offer: (model: number, now: number, candidate: Partial<Candidate>) =>
      stepRank(
        rank,
        {
          kind: "candidate-offered",
          at: at(now),
          candidate: {
            thread: threadId(model, 0),
            term: 1,
            offerSeq: ++offerSeq,
            batchSize: 4,
            execAt: at(now),
            latest: at(now + 50_000),
            delay: 200 as Micros,
            unfit: [],
            ...candidate,
          },
        },
        out,
      ),
    ask: (now: number, takes: number, gpu: GpuId = all[0]!, grantSeq = 0) =>
      giveIdleTime(rank, at(now), { gpu, executor: EXECUTOR, grantSeq, takes: takes as Micros }),
    freed: (now: number, gpu: GpuId, freeAt: number) =>
      stepRank(rank, { kind: "gpu-freed", at: at(now), gpu, executor: EXECUTOR, grantSeq: 0, freeAt: at(freeAt) }, out),
    /** Everything that is due until then. */
    runUntil: (end: number) => {
      for (let next = nextRankWakeAt(rank); next <= end; next = nextRankWakeAt(rank))
        stepRank(rank, { kind: "clock-reached", at: next > rank.now ? next : rank.now }, out);
    },
  };
}

test("an idle accelerator gets time of its own, and nothing is granted on it meanwhile", () => {
  const { ask, offer, grants, runUntil } = ranked(1);
  expect(ask(1_000, 20_000)).toBe(21_000);
  expect(ask(1_100, 20_000)).toBe(undefined);
  offer(1, 2_000, { execAt: at(2_200) });
  runUntil(20_700);
  expect(grants).toEqual([]);
  runUntil(21_000);
  expect(grants).toMatchObject([{ gpu: 0, freeAt: 21_000 }]);
});

test("there is no time for a run that would end after a candidate is due, and there is for a shorter one", () => {
  const { ask, offer } = ranked(1);
  offer(1, 1_000, { execAt: at(10_200) });
  expect(ask(1_000, 9_500)).toBe(undefined);
  expect(ask(1_000, 8_900)).toBe(9_900);
});

test("candidates that are due need accelerators of their own, and then the others may have time", () => {
  const { ask, offer } = ranked(3);
  offer(1, 1_000, { execAt: at(5_000) });
  offer(2, 1_000, { execAt: at(6_000) });
  expect(ask(1_000, 20_000, gpuId(2))).toBe(21_000);
  expect(ask(1_000, 20_000, gpuId(1))).toBe(undefined);
});

test("only candidates that could get the accelerator count, and only others that each of them could get", () => {
  const { ask, offer } = ranked(4);
  offer(1, 1_000, { execAt: at(5_000), unfit: [{ type: 1 }] });
  expect(ask(1_000, 20_000, gpuId(3))).toBe(21_000);
  const two = ranked(4);
  two.offer(1, 1_000, { execAt: at(5_000), unfit: [{ type: 0 }] });
  expect(two.ask(1_000, 20_000, gpuId(3))).toBe(undefined);
  expect(two.ask(1_000, 20_000, gpuId(0))).toBe(21_000);
});

test("an accelerator with a grant on its way, one that has seen too old a grant, or someone else's gets none", () => {
  const { ask, offer, rank, runUntil, grants } = ranked(2);
  offer(1, 1_000, { execAt: at(1_200) });
  runUntil(1_000);
  expect(grants).toHaveLength(1);
  expect(ask(1_000, 100, gpuId(0), 1)).toBe(undefined);
  expect(ask(1_000, 100, gpuId(1), 5)).toBe(undefined);
  const asked = { gpu: gpuId(1), executor: actorKey(8), grantSeq: 0, takes: 100 as Micros, gpus: [gpuId(1)] };
  expect(giveIdleTime(rank, at(1_000), asked)).toBe(undefined);
});

test("what a candidate waits for such a run is told, and nothing where it would have waited anyway", () => {
  const { ask, offer, rank, grants, runUntil, freed } = ranked(1);
  const until = ask(1_000, 20_000)!;
  offer(1, 2_000, { execAt: at(5_000) });
  freed(15_000, gpuId(0), 15_000);
  runUntil(15_000);
  expect(idleDelayOf(rank, grants[0]!, until)).toBe(10_000);
  offer(2, 15_000, { execAt: at(60_000) });
  expect(idleDelayOf(rank, { thread: threadId(2, 0), freeAt: at(30_000) }, until)).toBe(0);
});
