import type { BatchDispatched } from "@tutti/protocol";
import {
  type ActorKey,
  type GpuId,
  Prng,
  type ThreadId,
  actorKey,
  gpuId,
  instant,
  jobThreadOf,
  micros,
  threadId,
} from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Fence } from "./fence.ts";

const SELF: ActorKey = actorKey(5);
const GPU: GpuId = gpuId(0);
const MODEL = 1;
const THREAD: ThreadId = threadId(MODEL, 0);
const NOW = instant(1_000);

const batchOf = ({ epoch, grantSeq }: { readonly epoch: number; readonly grantSeq: number }): BatchDispatched => ({
  ...{ batchId: 1 as BatchDispatched["batchId"], thread: THREAD, gpu: GPU, term: 1, epoch, grantSeq },
  ...{ executor: SELF, ranker: actorKey(9), validUntil: NOW, grantedAt: NOW, sentAt: NOW, startAt: NOW, latest: NOW },
  ...{ frontrun: NOW, expectedRun: micros(1), ingresses: [], requests: [] },
});

test("whoever moves obeys a leader of a lower epoch, and what the one before gave is refused, also after coming back (T5)", () => {
  const fence = new Fence(SELF, [GPU]);
  const admits = (epoch: number, grantSeq: number): boolean =>
    fence.admit(batchOf({ epoch, grantSeq }), NOW) === undefined;
  fence.raise(10);
  expect(admits(10, 1)).toBe(true);
  fence.move(4);
  expect([fence.epoch, admits(10, 2), admits(10, 2 ** 23)]).toEqual([4, false, false]);
  const joined = fence.sequence(GPU);
  expect(admits(4, joined + 1)).toBe(true);
  fence.move(10);
  expect([admits(10, 3), admits(10, 2 ** 23), admits(10, joined + 2)]).toEqual([false, false, false]);
  expect(admits(10, fence.sequence(GPU) + 1)).toBe(true);
});

test("between two leaders nobody's grants are obeyed", () => {
  const fence = new Fence(SELF, [GPU]);
  fence.raise(10);
  fence.move(0);
  for (const epoch of [1, 10, 11]) expect(fence.admit(batchOf({ epoch, grantSeq: 2 ** 40 }), NOW)).toBe("old-epoch");
});

test("sequences that no leader can have reached, and terms that nobody has written, are not believed for good", () => {
  const fence = new Fence(SELF, [GPU]);
  fence.raise(10);
  const admits = (grantSeq: number, term = 1): string | undefined =>
    fence.admit({ ...batchOf({ epoch: 10, grantSeq }), term }, NOW);
  expect(admits(2 ** 40)).toBe("old-sequence");
  fence.raiseSequence(GPU, Number.MAX_SAFE_INTEGER);
  expect([fence.sequence(GPU), admits(1), admits(2, 2 ** 40), admits(3)]).toEqual([
    0,
    undefined,
    undefined,
    "old-term",
  ]);
  // A lease may be on its way when its first batch comes, and is here when it is looked at again.
  fence.checkTerm(MODEL, 1);
  expect(admits(4)).toBe("old-term");
  fence.checkTerm(MODEL, 1);
  expect(admits(5)).toBe(undefined);
  fence.raiseTerm(MODEL, 7);
  fence.checkTerm(MODEL, 6);
  fence.checkTerm(MODEL, 7);
  fence.checkTerm(MODEL, 7);
  expect([admits(6, 6), admits(7, 7)]).toEqual(["old-term", undefined]);
});

test.each([
  ["jobs", jobThreadOf(THREAD)],
  ["another bucket", threadId(MODEL, 3)],
])("a model's lease is that of all its threads: an older term is refused, of %s too (T5)", (_, thread) => {
  const fence = new Fence(SELF, [GPU]);
  fence.raise(10);
  const admits = (grantSeq: number, of: ThreadId, term: number): string | undefined =>
    fence.admit({ ...batchOf({ epoch: 10, grantSeq }), thread: of, term }, NOW);
  fence.raiseTerm(MODEL, 3);
  expect([admits(1, thread, 2), admits(2, thread, 4), admits(3, THREAD, 3)]).toEqual([
    "old-term",
    undefined,
    "old-term",
  ]);
  expect(admits(4, threadId(MODEL + 1, 0), 1)).toBe(undefined);
});

/** A leader that has not heard of the executor's move goes on from the last sequence reported to it. */
class LeaderModel {
  readonly epoch: number;
  #next = 0;
  /** Last sequence reported to it; undefined: it knows that the executor moved. */
  #told: number | undefined;

  constructor(epoch: number) {
    this.epoch = epoch;
  }
  hear(grantSeq: number): void {
    this.#told = grantSeq;
    this.#next = Math.max(this.#next, grantSeq);
  }
  hearGoodbye(): void {
    this.#told = undefined;
  }
  grant(): number | undefined {
    return this.#told === undefined ? undefined : ++this.#next;
  }
}

interface Granted {
  readonly epoch: number;
  readonly grantSeq: number;
  /** How often the executor had moved when the grant was given. */
  readonly moves: number;
  /** Whether the leader was newer than the one that the executor had joined. */
  readonly isEarly: boolean;
  isUsed: boolean;
}

/** Runs a random history. Messages arrive late, repeated and in any order, or never. */
function history(seed: number): { readonly accepted: number; readonly early: number } {
  const prng = new Prng(seed);
  const fence = new Fence(SELF, [GPU]);
  let epochs = 0;
  const leaders = ["main", "s1"].map(() => new LeaderModel(++epochs));
  /** Epochs as the executor knows them, and the last sequence reported to each sub-cluster. */
  const known = leaders.map(({ epoch }) => epoch);
  const told = [0, 0];
  let [home, moves, accepted, early] = [0, 0, 0, 0];
  const grants: Granted[] = [];
  /** Announcements, joinings and heartbeats under way: all of them were true when they were sent. */
  const words: (() => void)[] = [];
  const tell = (): void => {
    const [leader, grantSeq] = [leaders.find(({ epoch }) => epoch === known[home]), fence.sequence(GPU)];
    told[home] = grantSeq;
    words.push(() => leader?.hear(grantSeq));
  };
  const depose = (subCluster: number): void => {
    const leader = new LeaderModel(++epochs);
    leaders[subCluster] = leader;
    // While it asked for the lease, it heard what its predecessor heard, or nothing.
    if (prng.nextFloat() < 0.5) leader.hear(told[subCluster]!);
    words.push(() => {
      if (leader.epoch <= known[subCluster]!) return;
      known[subCluster] = leader.epoch;
      if (home !== subCluster) return;
      fence.raise(leader.epoch);
      tell();
    });
  };
  fence.raise(known[home]!);
  tell();
  const actions = [
    () => {
      const left = leaders[home]!;
      words.push(() => left.hearGoodbye());
      home = 1 - home;
      moves++;
      fence.move(known[home]!);
      tell();
    },
    () => depose(prng.nextInt(2)),
    () => words[prng.nextInt(words.length)]!(),
    () => words.at(-1)!(),
    ...Array.from({ length: 4 }, () => () => {
      const leader = leaders[prng.nextInt(2)]!;
      const grantSeq = leader.grant();
      const isEarly = leader.epoch > known[home]!;
      if (grantSeq !== undefined) grants.push({ epoch: leader.epoch, grantSeq, moves, isEarly, isUsed: false });
    }),
    ...Array.from({ length: 6 }, () => () => {
      const grant = grants[prng.nextFloat() < 0.5 ? grants.length - 1 : Math.floor(prng.nextFloat() * grants.length)];
      if (grant === undefined || fence.admit(batchOf(grant), NOW) !== undefined) return;
      accepted++;
      if (grant.isEarly) early++;
      expect(grant.isUsed, "one batch per grant").toBe(false);
      expect(grant.epoch, "of the leader that was joined last").toBe(known[home]!);
      expect(grant.moves, "given since it moved last").toBe(moves);
      grant.isUsed = true;
    }),
  ];
  for (let i = 0; i < 200; i++) actions[prng.nextInt(actions.length)]!();
  return { accepted, early };
}

test("whatever is late, lost, repeated or reordered, accepted is only what the leader that was joined last gave since the last move, each once (T5)", () => {
  let [accepted, early] = [0, 0];
  fc.assert(
    fc.property(fc.nat(), (seed) => {
      const more = history(seed);
      accepted += more.accepted;
      early += more.early;
    }),
    { numRuns: 500 },
  );
  expect(accepted).toBeGreaterThan(1_000);
  expect(early).toBeGreaterThan(20);
});
