import type { Heartbeat, Role } from "@tutti/protocol";
import { type ActorKey, actorKey, instant } from "@tutti/units";
import { expect, test } from "vitest";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { SubClusterPeers } from "./sub-cluster-peers.ts";

const [LEADER, SELF] = [actorKey(1), actorKey(50)];

function among(...peers: readonly Pick<Heartbeat, "key" | "role" | "startedAt" | "subCluster">[]): SubClusterPeers {
  const some = (role: Role, matches: (peer: Heartbeat) => boolean): boolean =>
    peers.some((peer) => peer.role === role && matches(peer as Heartbeat));
  const runtime = { registry: { some }, startedAt: instant(1_000) } as unknown as ActorRuntime;
  return new SubClusterPeers(runtime, { key: SELF, subCluster: "s1" });
}
const ranker = (key: number, startedAt: number, subCluster = "s1") =>
  ({ key: actorKey(key), role: "ranker", startedAt: instant(startedAt), subCluster }) as const;

test.for([
  ["alone", [], true],
  ["beside a younger one of a lesser key", [ranker(2, 1_001)], true],
  ["beside an older one of a greater key", [ranker(99, 999)], false],
  ["beside one of the same age and a lesser key", [ranker(49, 1_000)], false],
  ["beside one of the same age and a greater key", [ranker(51, 1_000)], true],
  ["beside an older one of another sub-cluster", [ranker(2, 1, "s2")], true],
  ["beside the leader, which is older", [ranker(LEADER, 1)], true],
] as const)("a spare %s is the first to ask for the lease, or not", ([, peers, isFirst]) => {
  expect(among(...peers).isFirstSpare(LEADER)).toBe(isFirst);
  expect(among(...peers).hasRankers).toBe(peers.some(({ subCluster }) => subCluster === "s1"));
});

test("an executor belongs to whose sub-cluster one of its accelerators serves, a batcher to all, a ranker to its own (RANKER-4)", () => {
  const own = among();
  const peer = (role: Role, more: object): boolean => own.has({ key: 7 as ActorKey, role, ...more } as Heartbeat);
  expect([peer("batcher", {}), peer("ranker", {}), peer("ranker", { subCluster: "s1" })]).toEqual([true, false, true]);
  const gpu = (subCluster: string): object => ({ gpus: [{ subCluster }] });
  expect([peer("executor", gpu("s1")), peer("executor", gpu("s2")), peer("executor", {})]).toEqual([true, false, true]);
});
