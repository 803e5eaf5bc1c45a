import { InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import type { Heartbeat, Role } from "@tutti/protocol";
import { type ActorKey, actorKey, instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { PeerRegistry } from "./peer-registry.ts";
import { PeerProbes } from "./peer-probes.ts";

const subjectOf = (key: ActorKey): string => `to.${key.toString(36)}`;

/** One actor that probes its peers every 20 ms and waits a second for silent ones. */
function probing() {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const later = (run: () => void): void => clock.alarm(run).set(instant(clock.now() + 50));
  const network = new InMemoryNetwork({ deliver: later, later });
  const bus = network.connect({ name: "observer" });
  const heard: string[] = [];
  const registry: PeerRegistry = new PeerRegistry(clock, millis(1_000), {
    onJoin: ({ key }) => heard.push(`join ${key}`),
    onLost: ({ key }) => heard.push(`lost ${key}`),
  });
  bus.onStatus(({ kind }) => kind === "reconnected" && registry.reconnected());
  const matters = ({ role }: Heartbeat): boolean => role === "executor";
  const probes = new PeerProbes({ bus, clock, every: millis(20), registry, subjectOf, matters });
  const run = (duration = millis(100)): void => clock.advanceTo(instant(clock.now() + duration));
  const beat = (key: number, role: Role = "executor"): void => {
    const at = clock.now();
    registry.hear({ key: actorKey(key), role, host: "h", pid: 1, sentAt: at, startedAt: at, leaving: false });
  };
  /** A peer as others see it: its subject, and a first heartbeat. */
  const start = (key: number, role?: Role) => {
    const peer = network.connect({ name: `peer-${key}` });
    let probed = 0;
    peer.subscribe(subjectOf(actorKey(key)), () => probed++);
    beat(key, role);
    return { peer, probed: () => probed };
  };
  return { clock, bus, directory: registry, heard, probes, run, beat, start };
}

test("a peer whose connection is gone is lost within one round of probes, whatever the time-out", () => {
  const { heard, run, start } = probing();
  const { peer } = start(1);
  start(2);
  run();
  peer.close(() => undefined);
  run(millis(21));
  expect(heard).toEqual(["join 1", "join 2", "lost 1"]);
});

test("a silent peer whose connection stands is not lost before its time-out", () => {
  const { heard, run, start } = probing();
  const { probed } = start(1);
  run(millis(999));
  expect(heard).toEqual(["join 1"]);
  expect(probed()).toBeGreaterThan(40);
  run(millis(150));
  expect(heard).toEqual(["join 1", "lost 1"]);
});

test("a peer that only lost its connection joins again with its next heartbeat", () => {
  const { heard, run, start, beat } = probing();
  const { peer } = start(1);
  run();
  peer.disconnect();
  run();
  peer.reconnect();
  beat(1);
  run();
  expect(heard).toEqual(["join 1", "lost 1", "join 1"]);
});

test("after our own reconnect nobody is lost who comes back later than we, until a whole time-out has passed", () => {
  const { bus, heard, run, start, beat } = probing();
  const { peer } = start(1);
  const { peer: dead } = start(2);
  run(millis(900));
  for (const one of [peer, dead, bus]) one.disconnect();
  bus.reconnect();
  run(millis(900));
  expect(heard).toEqual(["join 1", "join 2"]);
  peer.reconnect();
  beat(1);
  run(millis(200));
  expect(heard).toEqual(["join 1", "join 2", "lost 2"]);
});

test("only those who matter are probed, and no more at once than the bound says (T7)", () => {
  const { probes, run, start } = probing();
  const { probed } = start(1, "batcher");
  const peers = Array.from({ length: 250 }, (_, i) => start(i + 2));
  run(millis(101));
  expect(probed()).toBe(0);
  expect(probes.sent).toBe(500);
  expect(peers.map((one) => one.probed())).toEqual(peers.map(() => 2));
});

test("nothing but the server's own word is proof: other messages to the inbox lose nobody (T8)", () => {
  const { bus, heard, run, start } = probing();
  const { peer } = start(1);
  peer.subscribe("to.>", ({ reply }) => {
    if (reply === undefined) return;
    peer.publish(reply, new Uint8Array(3), { headers: { Status: "503" } });
    peer.publish(reply.replace(/[^.]*$/, "zz-not-a-key"), new Uint8Array(0), { headers: { Status: "503" } });
  });
  run();
  expect(bus.connected).toBe(true);
  expect(heard).toEqual(["join 1"]);
});

test("a stranger is gone if nobody is there for 100 ms, and one that is there, or is heard, is not", () => {
  const { directory: registry, probes, run, start, beat } = probing();
  const gone: number[] = [];
  const { peer } = start(2, "batcher");
  registry.lose(actorKey(2));
  beat(2, "batcher");
  for (const key of [1, 2, 3]) probes.askAfter(actorKey(key), () => gone.push(key));
  run(millis(50));
  beat(3, "batcher");
  run(millis(45));
  expect(gone).toEqual([]);
  run(millis(30));
  expect(gone).toEqual([1]);
  expect(registry.isGone(actorKey(1))).toBe(true);
  expect([registry.isGone(actorKey(2)), registry.isGone(actorKey(3))]).toEqual([false, false]);
  peer.close(() => undefined);
});

test("after our connection was made anew nobody's being there says nothing of a stranger: it may come back later than we", () => {
  const { probes, run } = probing();
  const gone: number[] = [];
  probes.askAfter(actorKey(1), () => gone.push(1));
  run(millis(50));
  probes.reconnected();
  probes.askAfter(actorKey(2), () => gone.push(2));
  run(millis(500));
  expect(gone).toEqual([]);
});
