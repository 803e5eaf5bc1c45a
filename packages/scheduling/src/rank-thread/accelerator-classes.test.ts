import { ALWAYS, type ActorKey, type GpuId, type Instant, type Micros, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { CLASSES_MAX } from "./accelerator-classes.ts";
import { type RankEffects, createRankThread, stepRank } from "../index.ts";

/** Joins accelerators of these types, and offers candidates that are due at once; their batches run until 1,000. */
function typed(types: readonly number[]) {
  const rank = createRankThread({ epoch: 1, ctrl: 3 as Micros, gpusMax: 64 });
  const grants: (readonly [model: number, gpu: number])[] = [];
  const out: RankEffects = {
    grant: ({ thread, term, gpu, grantSeq, offerSeq }) => {
      grants.push([thread / 64, gpu]);
      const answer = { thread, term, gpu, grantSeq, offerSeq, used: true, freeAt: 1_000 as Instant, scarcity: 0 };
      stepRank(rank, { kind: "grant-answered", at: rank.now, ...answer }, out);
    },
    askGpu: () => undefined,
  };
  const join = (gpu: number, type: number): void => {
    const joined = { gpu: gpu as GpuId, executor: (gpu + 1) as ActorKey, type, freeAt: ALWAYS, grantSeq: 0 };
    stepRank(rank, { kind: "gpu-joined", at: rank.now, ...joined }, out);
  };
  for (const [gpu, type] of types.entries()) join(gpu, type);
  const offer = (model: number, at: number, latest: number, unfit: readonly number[] = []): void => {
    const seqs = { thread: threadId(model, 0), term: 1, offerSeq: 1, batchSize: 1, delay: 0 as Micros };
    const window = { execAt: at as Instant, latest: latest as Instant, unfit: unfit.map((type) => ({ type })) };
    stepRank(rank, { kind: "candidate-offered", at: at as Instant, candidate: { ...seqs, ...window } }, out);
    stepRank(rank, { kind: "clock-reached", at: at as Instant }, out);
  };
  return { rank, grants, out, join, offer };
}

test("worked: types that can't run a model aren't granted to it, and others leave it those that can (CLASS-2)", () => {
  const { rank, grants, out, join, offer } = typed([0, 0, 1, 1]);
  offer(1, 10, 100, [1]);
  offer(2, 10, 100); // accelerators of type 1 serve only models like this one
  offer(3, 10, 100);
  offer(4, 10, 100);
  expect(grants).toEqual([
    [1, 0],
    [2, 2],
    [3, 3],
    [4, 1],
  ]);
  offer(5, 11, 50, [1]);
  offer(6, 11, 60);
  const freed = { at: 20 as Instant, freeAt: 20 as Instant, grantSeq: 1 };
  const free = (gpu: number): void => {
    stepRank(rank, { kind: "gpu-freed", gpu: gpu as GpuId, executor: (gpu + 1) as ActorKey, ...freed }, out);
    stepRank(rank, { kind: "clock-reached", at: 20 as Instant }, out);
  };
  free(2); // the fifth is more urgent, but can't run there
  expect(grants.at(-1)).toEqual([6, 2]);
  join(4, 2); // a type that nobody knew when it was offered
  stepRank(rank, { kind: "clock-reached", at: 20 as Instant }, out);
  expect(grants.at(-1)).toEqual([5, 4]);
});

test("worked: of candidates that wait, those that can't run everywhere go first where they can run (A4)", () => {
  const { rank, grants, out, offer } = typed([0, 1]);
  offer(1, 10, 100);
  offer(2, 10, 100);
  offer(3, 11, 50);
  offer(4, 11, 60, [1]);
  const freed = { at: 20 as Instant, freeAt: 20 as Instant, grantSeq: 1 };
  const free = (gpu: number): void => {
    stepRank(rank, { kind: "gpu-freed", gpu: gpu as GpuId, executor: (gpu + 1) as ActorKey, ...freed }, out);
    stepRank(rank, { kind: "clock-reached", at: 20 as Instant }, out);
  };
  free(0);
  expect(grants.at(-1)).toEqual([4, 0]);
  free(1);
  expect(grants.at(-1)).toEqual([3, 1]);
});

test("types beyond CLASSES_MAX share a class, for models that any type can run, until another's accelerators are gone", () => {
  const { rank, grants, out, join, offer } = typed(Array.from({ length: 33 }, (_, type) => type));
  expect(rank.accelerators.classes.count).toBe(CLASSES_MAX);
  expect([rank.accelerators.classOf(31), rank.accelerators.classOf(32)]).toEqual([31, 31]);
  for (let model = 0; model < 32; model++) offer(model, 10, 100, [40]);
  expect(grants.map(([, gpu]) => gpu)).toEqual(Array.from({ length: 31 }, (_, gpu) => gpu));
  offer(50, 11, 100);
  expect(grants.at(-1)).toEqual([50, 31]);
  stepRank(rank, { kind: "gpu-lost", at: 11 as Instant, gpu: 7 as GpuId, executor: 8 as ActorKey }, out);
  join(33, 33);
  expect(rank.accelerators.classOf(33)).toBe(7);
  stepRank(rank, { kind: "clock-reached", at: 11 as Instant }, out);
  expect(grants.at(-1)).toEqual([31, 33]);
});
