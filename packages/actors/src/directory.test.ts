import { VirtualClock } from "@tutti/clock";
import type { Heartbeat } from "@tutti/protocol";
import { type Instant, actorKey, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { Directory } from "./directory.ts";

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
  const directory = new Directory(clock, millis(100), {
    onJoin: (peer) => heard.push(`join ${peer.key}`),
    onLost: (peer) => heard.push(`lost ${peer.key}`),
  });
  const run = (ms: number): void => clock.advanceTo(instant(clock.now() + ms * 1_000));
  return { clock, directory, heard, run };
}

test("a peer is lost after its time-out and not before, and joins again when it is heard again", () => {
  const { clock, directory, heard, run } = watched();
  directory.hear(beat(1, clock.now()));
  run(90);
  expect(heard).toEqual(["join 1"]);
  run(60);
  expect(heard).toEqual(["join 1", "lost 1"]);
  directory.hear(beat(1, clock.now()));
  expect(heard).toEqual(["join 1", "lost 1", "join 1"]);
});

test("a goodbye needs no time-out", () => {
  const { clock, directory, heard } = watched();
  directory.hear(beat(1, clock.now()));
  directory.hear(beat(1, clock.now(), true));
  expect(heard).toEqual(["join 1", "lost 1"]);
});
