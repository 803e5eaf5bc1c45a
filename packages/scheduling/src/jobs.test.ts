import { LatencyTable } from "@tutti/profile";
import { ALWAYS, type ActorKey, type GpuId, type Instant, type Micros, threadId } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Candidate,
  type Grant,
  type RankThread,
  createRankThread,
  isSpare,
  jobRunMax,
  nextRankWakeAt,
  profileOfJobs,
  stepRank,
} from "./index.ts";

const JOBS = 9;
const at = (us: number): Instant => us as Instant;
const executorOf = (gpu: number): ActorKey => (gpu + 1) as ActorKey;

/** A ranker with accelerators that are free at these times, of these types, and models that answer at once. */
function ranked(freeAt: readonly number[], types: readonly number[] = []) {
  const rank = createRankThread({ epoch: 1, ctrl: 100 as Micros, gpusMax: 8 });
  const grants: Grant[] = [];
  const out = { grant: (grant: Grant) => void grants.push({ ...grant }), askGpu: () => undefined };
  for (const [gpu, free] of freeAt.entries()) {
    const joined = { gpu: gpu as GpuId, executor: executorOf(gpu), type: types[gpu] ?? 0, freeAt: at(free) };
    stepRank(rank, { kind: "gpu-joined", at: ALWAYS, ...joined, grantSeq: 0 }, out);
  }
  let offerSeq = 0;
  const offer = (model: number, now: number, given: Partial<Candidate>): void => {
    const candidate = {
      ...{ thread: threadId(model, 0), term: 1, offerSeq: ++offerSeq, batchSize: 4, delay: 200 as Micros },
      ...{ execAt: at(now + 200), latest: at(now + 1e6), unfit: [], ...given },
    };
    stepRank(rank, { kind: "candidate-offered", at: at(now), candidate }, out);
  };
  const runUntil = (end: number): void => {
    for (let next = nextRankWakeAt(rank); next <= end; next = nextRankWakeAt(rank))
      stepRank(rank, { kind: "clock-reached", at: next > rank.now ? next : rank.now }, out);
  };
  const answer = ({ thread, term, gpu, grantSeq }: Grant, now: number, until: number): void => {
    const answered = { thread, term, gpu, grantSeq, offerSeq, used: true, freeAt: at(until), scarcity: 0 };
    stepRank(rank, { kind: "grant-answered", at: at(now), ...answered }, out);
  };
  return { rank, grants, offer, runUntil, answer };
}

const granted = (grants: readonly Grant[]) =>
  grants.map(({ thread, gpu, sentAt }) => [thread / 64, gpu as number, sentAt as number]);

test("worked: jobs get an accelerator that no request needs before they would end", () => {
  const { grants, offer, runUntil } = ranked([0, 20_000]);
  offer(1, 1_000, { execAt: at(10_200) });
  offer(JOBS, 1_000, { takes: 9_000 as Micros });
  runUntil(1_000);
  expect(granted(grants)).toEqual([[JOBS, 0, 1_000]]); // from 1.2 to 10.2 ms
});

test("worked: where they would end later, another accelerator must be free by the candidate's planned start", () => {
  const none = ranked([0, 10_201]);
  none.offer(1, 1_000, { execAt: at(10_200) });
  none.offer(JOBS, 1_000, { takes: 9_001 as Micros });
  none.runUntil(9_999);
  expect(none.grants).toEqual([]);
  none.runUntil(10_000);
  expect(granted(none.grants)).toEqual([[1, 0, 10_000]]);

  const one = ranked([0, 10_200]);
  one.offer(1, 1_000, { execAt: at(10_200) });
  one.offer(JOBS, 1_000, { takes: 9_001 as Micros });
  one.runUntil(10_000);
  expect(granted(one.grants)).toEqual([
    [JOBS, 0, 1_000],
    [1, 1, 10_000],
  ]);
});

test("jobs are granted as soon as an accelerator is nearly free, and models with jobs take turns (JOBS-1, JOBS-2)", () => {
  const { grants, offer, runUntil, answer } = ranked([5_000]);
  offer(JOBS, 1_000, { takes: 2_000 as Micros });
  offer(JOBS + 1, 1_000, { takes: 2_000 as Micros });
  runUntil(5_000);
  expect(granted(grants)).toEqual([[JOBS, 0, 4_800]]);
  answer(grants[0]!, 5_000, 7_000);
  offer(JOBS, 5_000, { takes: 2_000 as Micros });
  runUntil(7_000);
  expect(granted(grants).at(-1)).toEqual([JOBS + 1, 0, 6_800]);
});

test("a model with long jobs, for which no time is spare, doesn't hold up another's (JOBS-1)", () => {
  const { grants, offer, runUntil } = ranked([0]);
  offer(1, 1_000, { execAt: at(10_200) });
  offer(JOBS, 1_000, { takes: 50_000 as Micros });
  offer(JOBS + 1, 1_000, { takes: 2_000 as Micros });
  runUntil(1_000);
  expect(granted(grants)).toEqual([[JOBS + 1, 0, 1_000]]);
});

test("jobs never wait in W, and are forgotten with their model", () => {
  const { rank, offer, runUntil } = ranked([]);
  offer(JOBS, 1_000, { takes: 2_000 as Micros });
  runUntil(3_000);
  expect(rank.waiting.size).toBe(0);
  offer(JOBS, 3_000, { batchSize: 0 });
  expect(nextRankWakeAt(rank)).toBe(Infinity);
});

interface Situation {
  readonly free: readonly { readonly at: number; readonly type: number }[];
  readonly due: readonly { readonly startAt: number; readonly unfit: readonly number[] }[];
  readonly until: number;
}

const situations: fc.Arbitrary<Situation> = fc.record({
  free: fc.array(fc.record({ at: fc.nat(20), type: fc.nat(2) }), { minLength: 1, maxLength: 6 }),
  due: fc.array(fc.record({ startAt: fc.nat(20), unfit: fc.subarray([0, 1, 2], { maxLength: 2 }) }), { maxLength: 6 }),
  until: fc.integer({ min: 1, max: 25 }),
});

/** Whether there is any assignment: every order of accelerators is tried. */
function canPlace({ free, due, until }: Situation, own: number): boolean {
  const asked = due.filter(({ startAt, unfit }) => startAt < until && !unfit.includes(free[own]!.type));
  const place = (i: number, taken: readonly number[]): boolean =>
    i === asked.length ||
    free.some(
      (one, gpu) =>
        !taken.includes(gpu) &&
        one.at <= asked[i]!.startAt &&
        !asked[i]!.unfit.includes(one.type) &&
        place(i + 1, [...taken, gpu]),
    );
  return place(0, [own]);
}

function rankOf({ free, due }: Situation): RankThread {
  const { rank, offer } = ranked(
    free.map((one) => one.at),
    free.map(({ type }) => type),
  );
  for (const [i, { startAt, unfit }] of due.entries())
    offer(i + 1, 0, { execAt: at(startAt), delay: 0 as Micros, unfit: unfit.map((type) => ({ type })) });
  return rank;
}

test("time is never spare where a candidate that is due would find no accelerator; with one type always where it would", () => {
  let [spare, needed] = [0, 0];
  fc.assert(
    fc.property(situations, fc.boolean(), (drawn, isOneType) => {
      const situation = isOneType
        ? {
            ...drawn,
            free: drawn.free.map((one) => ({ ...one, type: 0 })),
            due: drawn.due.map((one) => ({ ...one, unfit: [] })),
          }
        : drawn;
      const is = isSpare(rankOf(situation), at(0), 0 as GpuId, at(situation.until));
      const may = canPlace(situation, 0);
      if (is) spare++;
      else needed++;
      return isOneType ? is === may : !is || may;
    }),
    { numRuns: 2_000 },
  );
  expect(Math.min(spare, needed)).toBeGreaterThan(200);
});

test("a batch of jobs runs for a quarter of the least slack, and not at all where one job takes longer", () => {
  expect(jobRunMax([18_000, 30_001])).toBe(4_500);
  expect(jobRunMax([-5])).toBe(0);
  const profile = LatencyTable.affine({ alpha: 1_000, beta: 500, batchSizeMax: 8 });
  expect(
    profileOfJobs(profile, 4_500 as Micros)
      ?.toPoints()
      .at(-1),
  ).toEqual({ batchSize: 4, latency: 4_500 });
  expect(profileOfJobs(profile, 1_499 as Micros)).toBe(undefined);
});
