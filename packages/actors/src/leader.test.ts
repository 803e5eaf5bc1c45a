import type { Heartbeat, RankerAnnounced } from "@tutti/protocol";
import { actorKey, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { type Leader, LeaderWatch } from "./leader.ts";
import type { Station } from "./station.ts";

const LEADERS_MAX = 1_024;

function watch() {
  let announce: (told: RankerAnnounced) => void = () => undefined;
  const station = {
    onPacked: (_: unknown, __: unknown, handler: typeof announce) => (announce = handler),
  } as unknown as Station;
  const heard: Leader[] = [];
  const leaders = new LeaderWatch(station, (leader) => heard.push(leader));
  const tell = (key: number, epoch: number, subCluster = "main"): void =>
    announce({ key: actorKey(key), epoch, subCluster });
  return { leaders, heard, tell };
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
