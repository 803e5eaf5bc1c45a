import { VirtualClock } from "@tutti/ports/clock";
import { BUCKET, type Heartbeat, LEAD_EXPECTED_FOR, LeadExpected, RankerAnnounced, leaseKeys } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type ActorKey, actorKey, after, instant, micros, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { type Leader, LeaderWatch } from "./leader.ts";
import type { ActorRuntime } from "./actor-runtime.ts";

const LEADERS_MAX = 1_024;

function watch() {
  const handlers = new Map<unknown, (told: never, sender: ActorKey) => void>();
  const runtime = {
    onPacked: (type: unknown, handler: (told: never, sender: ActorKey) => void) => handlers.set(type, handler),
  } as unknown as ActorRuntime;
  const clock = new VirtualClock();
  const heard: Leader[] = [];
  const expected: [number, string][] = [];
  const store = new InMemoryStore({ deliver: (run) => run() });
  const disproved: [string, Leader | undefined][] = [];
  const leaders = new LeaderWatch({
    ...{ runtime, store, clock, onChange: (leader) => heard.push(leader) },
    onDisproved: (subCluster, leader) => disproved.push([subCluster, leader]),
    onExpected: (successor, subCluster) => expected.push([successor, subCluster]),
  });
  const tell = (key: number, epoch: number, subCluster = "main", sender = key): void =>
    handlers.get(RankerAnnounced)!({ key: actorKey(key), epoch, subCluster } as never, actorKey(sender));
  const expecting = (key: number, epoch: number, subCluster = "main", sender = key): void =>
    handlers.get(LeadExpected)!({ key: actorKey(key), epoch, subCluster } as never, actorKey(sender));
  return { leaders, heard, disproved, store, tell, expecting, expected, clock };
}
const beat = (key: number, changes: Partial<Heartbeat>): Heartbeat => ({
  ...{ key: actorKey(key), role: "ranker", host: "h", pid: 1, sentAt: instant(1), startedAt: instant(1) },
  ...{ leaving: false, ...changes },
});

test("of each sub-cluster the newest leader is obeyed, whatever the epochs of the others (T5)", () => {
  const { leaders, heard, tell } = watch();
  tell(1, 20);
  tell(2, 5, "s1");
  tell(3, 19);
  tell(3, 6, "s1");
  tell(2, 5, "s1");
  expect(heard.map(({ key, subCluster }) => [key, subCluster])).toEqual([
    [1, "main"],
    [2, "s1"],
    [3, "s1"],
  ]);
  expect([leaders.of("main")?.key, leaders.of("s1")?.key, leaders.of("s2"), leaders.of(undefined)]).toEqual([
    ...[1, 3],
    ...[undefined, undefined],
  ]);
  expect([leaders.withEpoch(20)?.subCluster, leaders.withEpoch(6)?.subCluster, leaders.withEpoch(5)]).toEqual([
    ...["main", "s1", undefined],
  ]);
});

test("heartbeats of leaders say the same as announcements, those of spares and others nothing", () => {
  const { leaders, heard } = watch();
  leaders.hearBeat(beat(1, { epoch: 4 }));
  leaders.hearBeat(beat(2, { epoch: 0, subCluster: "s1" }));
  leaders.hearBeat(beat(3, { role: "executor", epoch: 9, subCluster: "s1" }));
  leaders.hearBeat(beat(4, { epoch: 3, subCluster: "s1" }));
  expect(heard).toEqual([
    { key: 1, epoch: 4, subCluster: "main" },
    { key: 4, epoch: 3, subCluster: "s1" },
  ]);
});

test("leaders of so many sub-clusters are remembered and no more; those that are known go on (T7)", () => {
  const { leaders, tell } = watch();
  for (let i = 0; i < LEADERS_MAX + 10; i++) tell(i + 1, i + 1, `s${i}`);
  expect([leaders.size, leaders.of(`s${LEADERS_MAX}`)]).toEqual([LEADERS_MAX, undefined]);
  tell(7, 5_000, "s0");
  expect(leaders.of("s0")?.epoch).toBe(5_000);
});

test("who asks for the lease of the leader that is known is a successor, until somebody leads or the store could have answered", () => {
  const { leaders, tell, expecting, expected, clock } = watch();
  expecting(2, 20); // Nobody leads yet.
  tell(1, 20);
  tell(7, 30, "s1");
  expecting(2, 19); // Another ranker holds that lease by now.
  expecting(2, 20, "main", 3); // The sender speaks for another actor.
  expect([expected, leaders.successorOf("main")]).toEqual([[], undefined]);
  expecting(2, 20);
  expect([expected, leaders.successorOf("main")]).toEqual([[[2, "main"]], 2]);
  expect([leaders.successorOf("s1"), leaders.successorOf(undefined)]).toEqual([undefined, undefined]);
  tell(3, 21);
  expect(leaders.successorOf("main")).toBe(undefined);
  expecting(4, 21);
  clock.advanceTo(after(clock.now(), LEAD_EXPECTED_FOR));
  expect(leaders.successorOf("main")).toBe(4);
  clock.advanceTo(after(clock.now(), micros(1)));
  expect(leaders.successorOf("main")).toBe(undefined);
});

test("an epoch that the store has not reached is given up, and whoever has the lease leads; nobody leads in another's name", () => {
  const { leaders, heard, disproved, store, tell, clock } = watch();
  const write = (subCluster: string, ranker: number): number => {
    let revision = 0;
    store.put(BUCKET.leases, leaseKeys.ranker(subCluster), toJson({ ranker }), (result) => {
      if ("revision" in result) revision = result.revision;
    });
    return revision;
  };
  const epoch = write("main", 1);
  tell(1, epoch);
  tell(9, epoch + 1, "main", 8);
  clock.advanceTo(after(clock.now(), seconds(1)));
  expect([heard.length, disproved]).toEqual([1, []]);
  tell(9, 2 ** 40);
  tell(9, 5_000, "nowhere");
  expect([leaders.of("main")?.key, leaders.of("nowhere")?.key]).toEqual([9, 9]);
  clock.advanceTo(after(clock.now(), seconds(1)));
  const real = { key: 1, epoch, subCluster: "main" };
  expect(disproved).toEqual([
    ["main", real],
    ["nowhere", undefined],
  ]);
  expect([leaders.of("main"), leaders.of("nowhere"), leaders.size]).toEqual([real, undefined, 1]);
  const next = write("main", 2);
  tell(2, next);
  clock.advanceTo(after(clock.now(), seconds(1)));
  expect([leaders.of("main")?.key, disproved.length]).toEqual([2, 2]);
});
