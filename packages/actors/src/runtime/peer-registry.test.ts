import { VirtualClock } from "@tutti/ports/clock";
import type { Heartbeat } from "@tutti/protocol";
import { type Instant, actorKey, instant, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { PeerRegistry } from "./peer-registry.ts";

const beat = (key: number, sentAt: Instant, leaving = false): Heartbeat => ({
  key: actorKey(key),
  role: "executor",
  host: "h",
  pid: 1,
  sentAt,
  startedAt: sentAt,
  leaving,
});

function watched() {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const heard: string[] = [];
  const registry = new PeerRegistry(clock, millis(100), {
    onJoin: (peer) => heard.push(`join ${peer.key}`),
    onLost: (peer) => heard.push(`lost ${peer.key}`),
  });
  const run = (ms: number): void => clock.advanceTo(instant(clock.now() + ms * 1_000));
  return { clock, directory: registry, heard, run };
}

test("a peer is lost after its time-out and not before, and joins again when it is heard again", () => {
  const { clock, directory: registry, heard, run } = watched();
  registry.hear(beat(1, clock.now()));
  run(90);
  expect(heard).toEqual(["join 1"]);
  run(60);
  expect(heard).toEqual(["join 1", "lost 1"]);
  registry.hear(beat(1, clock.now()));
  expect(heard).toEqual(["join 1", "lost 1", "join 1"]);
});

test("a goodbye needs no time-out", () => {
  const { clock, directory: registry, heard } = watched();
  registry.hear(beat(1, clock.now()));
  registry.hear(beat(1, clock.now(), true));
  expect(heard).toEqual(["join 1", "lost 1"]);
});

test("our own stall is not our peers' silence", () => {
  let skipped = 0;
  const inner = new VirtualClock({ startAt: instant(1_000_000) });
  const lost: number[] = [];
  // Timers that are due during a stall run once, at its end, before anything that arrived is read.
  const clock = {
    now: () => instant(inner.now() + skipped),
    alarm: () => ({ set: () => undefined, clear: () => undefined }),
    every: (period: Parameters<VirtualClock["every"]>[0], run: () => void) => inner.every(period, run),
    endOfTurn: (run: () => void) => run(),
    lateness: () => micros(0),
  };
  const registry = new PeerRegistry(clock, millis(100), { onLost: ({ key }) => lost.push(key) });
  const heard = (key: number): void => registry.hear(beat(key, clock.now()));
  const run = (ms: number): void => inner.advanceTo(instant(inner.now() + ms * 1_000));
  [1, 2].forEach(heard);
  run(50);
  skipped = 90_000;
  run(20);
  expect(lost).toEqual([]);
  heard(1);
  run(50);
  expect(lost).toEqual([2]);
});

test("while our own connection is away nobody is lost, and afterwards peers have a whole time-out to be heard again", () => {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const lost: number[] = [];
  const registry = new PeerRegistry(clock, millis(100), { onLost: ({ key }) => lost.push(key) });
  const run = (ms: number): void => clock.advanceTo(instant(clock.now() + ms * 1_000));
  [1, 2].forEach((key) => registry.hear(beat(key, clock.now())));
  registry.disconnected();
  run(10_000);
  registry.reconnected();
  run(90);
  registry.hear(beat(1, clock.now()));
  expect(lost).toEqual([]);
  run(50);
  expect(lost).toEqual([2]);
});

test("who said goodbye or is proved dead is gone until it is heard again; who is only silent is not", () => {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const registry = new PeerRegistry(clock, millis(100), {});
  for (const key of [1, 2, 3]) registry.hear(beat(key, clock.now()));
  registry.hear(beat(1, clock.now(), true));
  registry.lose(actorKey(2));
  clock.advanceBy(millis(200));
  const gone = (): boolean[] => [1, 2, 3].map((key) => registry.isGone(actorKey(key)));
  expect(gone()).toEqual([true, true, false]);
  registry.hear(beat(2, clock.now()));
  expect(gone()).toEqual([true, false, false]);
});
