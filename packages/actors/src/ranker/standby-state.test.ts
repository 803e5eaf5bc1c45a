import { VirtualClock } from "@tutti/ports/clock";
import {
  type CandidateOffered,
  type GpuState,
  type Heartbeat,
  LEAD_EXPECTED_FOR,
  type LeadExpected,
  type Role,
} from "@tutti/protocol";
import { type ActorKey, actorKey, after, gpuId, instant, micros, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { StandbyState } from "./standby-state.ts";
import { SubClusterPeers } from "./sub-cluster-peers.ts";

const [SELF, BATCHER] = [actorKey(1), actorKey(2)];
const [E1, E2, FOREIGN] = [actorKey(11), actorKey(12), actorKey(13)];

function spare(...executors: readonly [ActorKey, string][]) {
  const clock = new VirtualClock();
  const sent: string[] = [];
  const runtime = {
    registry: {
      *ofRole(role: Role): Generator<Heartbeat> {
        for (const [key, subCluster] of executors)
          if (role === "executor") yield { key, role, gpus: [{ subCluster }] } as unknown as Heartbeat;
      },
    },
    broadcast: (role: Role, type: { name: string }, value: LeadExpected) =>
      sent.push(`${type.name} ${value.epoch} to ${role}`),
  } as unknown as ActorRuntime;
  const named = { key: SELF, subCluster: "s1" };
  const standbyState = new StandbyState({ runtime, clock, own: new SubClusterPeers(runtime, named), ...named });
  const read = (): string[] => {
    const seen: string[] = [];
    standbyState.read({
      onGpu: (executor, { gpu, freeAt, grantSeq }) => seen.push(`gpu ${gpu} of ${executor}: ${grantSeq} at ${freeAt}`),
      onOffer: ({ offerSeq }, batcher) => seen.push(`offer ${offerSeq} of ${batcher}`),
    });
    return seen;
  };
  return { standbyState, clock, sent, read };
}
const gpu = (id: number, freeAt = 5, grantSeq = 3): GpuState => ({
  ...{ gpu: gpuId(id), freeAt: instant(freeAt), grantSeq, epoch: 7 },
  ...{ subCluster: "s1", serving: true, type: "none" },
});
const offer = (offerSeq: number, term = 1): CandidateOffered => ({
  ...{ thread: threadId(4, 0), term, offerSeq, batchSize: 1 },
  ...{ execAt: instant(1), latest: instant(2), delay: micros(3), unfit: [] },
});

test("everybody is asked once, and the newest of each accelerator and thread is read, accelerators first", () => {
  const { standbyState, sent, read } = spare([E1, "s1"]);
  standbyState.offered(offer(1), BATCHER); // Not asked for.
  standbyState.begin(7);
  standbyState.begin(7);
  expect(sent).toEqual(["lead-expected 7 to executor", "lead-expected 7 to batcher"]);
  standbyState.offered(offer(5), BATCHER);
  standbyState.offered(offer(4), BATCHER);
  standbyState.offered(offer(6), BATCHER);
  standbyState.offered(offer(9, 0), BATCHER);
  standbyState.joined(E1, [gpu(0), gpu(1)]);
  standbyState.freed({ gpu: gpuId(1), executor: E1, epoch: 7, grantSeq: 4, freeAt: instant(9) }, E1);
  standbyState.freed({ gpu: gpuId(1), executor: E1, epoch: 7, grantSeq: 3, freeAt: instant(99) }, E1);
  standbyState.freed({ gpu: gpuId(0), executor: E2, epoch: 7, grantSeq: 8, freeAt: instant(99) }, E2);
  expect(read()).toEqual(["gpu 0 of 11: 3 at 5", "gpu 1 of 11: 4 at 9", "offer 6 of 2"]);
  expect(read()).toEqual([]);
});

test("what was heard of another lease, or too long ago, or of who is gone, counts for nothing", () => {
  const { standbyState, clock, read } = spare([E1, "s1"]);
  standbyState.begin(7);
  expect([standbyState.holds(7), standbyState.holds(6)]).toEqual([true, false]);
  standbyState.joined(E1, [gpu(0)]);
  standbyState.offered(offer(1), BATCHER);
  standbyState.begin(8);
  standbyState.joined(E2, [gpu(1)]);
  standbyState.offered(offer(2), BATCHER);
  standbyState.forget(E2);
  expect(read()).toEqual(["offer 2 of 2"]);
  standbyState.begin(9);
  standbyState.joined(E1, [gpu(0)]);
  clock.advanceTo(after(clock.now(), micros(LEAD_EXPECTED_FOR + 1)));
  expect([standbyState.holds(9), read()]).toEqual([false, []]);
});

test("a lease that was nobody's is followed by a lead that knows nothing of before", () => {
  const { standbyState, read } = spare([E1, "s1"]);
  standbyState.begin(7);
  standbyState.joined(E1, [gpu(0)]);
  standbyState.begin(0);
  expect([standbyState.holds(0), standbyState.holds(7), read()]).toEqual([false, false, []]);
});

test("an accelerator that moved to another sub-cluster is forgotten, unless another executor drives it by now", () => {
  const { standbyState, read } = spare([E1, "s1"], [E2, "s1"]);
  standbyState.begin(7);
  standbyState.joined(E1, [gpu(0), gpu(1)]);
  standbyState.joined(E2, [gpu(1, 8)]);
  standbyState.joined(
    E1,
    [0, 1].map((id) => ({ ...gpu(id), subCluster: "s2" })),
  );
  expect(read()).toEqual(["gpu 1 of 12: 3 at 8"]);
});

test("it is heard out when all executors of its sub-cluster have answered or are gone", () => {
  const { standbyState } = spare([E1, "s1"], [E2, "s1"], [FOREIGN, "s2"]);
  let heard = 0;
  standbyState.begin(7, () => heard++);
  standbyState.joined(E1, [gpu(0)]);
  standbyState.joined(E1, [gpu(0)]);
  expect(heard).toBe(0);
  standbyState.forget(E2);
  expect(heard).toBe(1);
  standbyState.joined(E2, [gpu(1)]);
  expect(heard).toBe(1);
  standbyState.begin(7, () => heard++);
  expect(heard).toBe(2);
  const alone = spare([FOREIGN, "s2"]);
  alone.standbyState.begin(7, () => heard++);
  expect(heard).toBe(3);
});
