import { type InMemoryBus, InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { Heartbeat, StatsReported } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type Telemetry, noTelemetry } from "@tutti/ports/telemetry";
import { actorKey, after, instant, millis, seconds } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { expect, test } from "vitest";
import { ActorRuntime } from "./actor-runtime.ts";

/** Two actor runtimes whose messages take a millisecond. */
function scene() {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const later = (ms: number, run: () => void): void => clock.alarm(run).set(after(clock.now(), millis(ms)));
  const network = new InMemoryNetwork({ deliver: (run) => later(1, run), later: (run) => later(0.1, run) });
  const warnings: unknown[] = [];
  const { log } = noTelemetry;
  const telemetry: Telemetry = {
    ...noTelemetry,
    log: { ...log, child: () => ({ ...log, warn: (fields, text) => void warnings.push([fields, text]) }) },
  };
  const runtime = (number: number) => {
    const [bus, bulk] = ["control", "bulk"].map((name) => network.connect({ name: `${number}-${name}` })) as [
      InMemoryBus,
      InMemoryBus,
    ];
    const ports = { bus, bulk, store: new InMemoryStore(), clock, telemetry, randomBytes: () => new Uint8Array(0) };
    const key = actorKey(number);
    const config = { key, cluster: "c", host: "h", pid: 1, heartbeatEvery: millis(20), peerTimeout: millis(100) };
    const one = new ActorRuntime(ports, config, { role: "batcher", listensTo: [], stats: () => ({ figures: {} }) });
    one.open();
    return { runtime: one, bus, bulk, key };
  };
  return { clock, network, runtime, warnings, run: (ms: number) => clock.advanceTo(after(clock.now(), millis(ms))) };
}

test("what was on its way to an actor that stops is read, and it is done when nothing more can come (T9)", () => {
  const { runtime, run } = scene();
  const [leaving, peer] = [runtime(1), runtime(2)];
  const heard: number[] = [];
  leaving.runtime.reader.on(Heartbeat, ({ pid }) => heard.push(pid));
  const beat = {
    key: peer.key,
    role: "batcher",
    host: "h",
    pid: 7,
    sentAt: instant(0),
    startedAt: instant(0),
  } as const;
  run(5);
  peer.runtime.send(leaving.key, Heartbeat, { ...beat, leaving: false });
  run(0.05); // the message has left its sender
  let done = 0;
  leaving.runtime.close(() => done++);
  expect([heard, done]).toEqual([[], 0]);
  run(5);
  expect([heard, done]).toEqual([[7], 1]);
  peer.runtime.send(leaving.key, Heartbeat, { ...beat, leaving: false });
  run(5);
  expect(heard).toEqual([7]);
});

test("an actor that reads more slowly than others send, or stood still, is a warning and a figure, by connection", () => {
  const { network, clock, runtime, warnings, run } = scene();
  const { bus, bulk } = runtime(1);
  const figures: Readonly<Record<string, number>>[] = [];
  const reader = new FrameReader().on(StatsReported, (stats) => void figures.push(stats.figures));
  network.connect({ name: "watcher" }).subscribe("tutti.v1.c.stats.*", ({ payload }) => void reader.read(payload));
  const status = { kind: "slow-consumer", lagMs: 2_500, stoodStillMs: 0, text: "2.5 s late" } as const;
  bulk.tell(status);
  bus.tell(status);
  bus.tell({ ...status, stoodStillMs: 2_400, text: "stood still" });
  clock.advanceTo(after(clock.now(), seconds(1.5)));
  run(5);
  expect(figures.at(-1)).toMatchObject({ slowConsumers: 2, standstills: 1 });
  expect(warnings).toEqual([
    [{ connection: "bulk", slowConsumers: 1, standstills: 0 }, "2.5 s late"],
    [{ connection: "control", slowConsumers: 2, standstills: 0 }, "2.5 s late"],
    [{ connection: "control", slowConsumers: 2, standstills: 1 }, "stood still"],
  ]);
});

test("frames of a newer version are counted, and reported once", () => {
  const { network, runtime, warnings, run } = scene();
  const { runtime: actor } = runtime(1);
  const frame = new FrameWriter(actorKey(2)).take().slice();
  frame[2] = 9;
  for (let i = 0; i < 3; i++) network.connect({ name: `peer-${i}` }).publish("tutti.v1.c.all.batcher", frame);
  run(5);
  expect([actor.faults, warnings.length]).toEqual([3, 1]);
  expect(JSON.stringify(warnings)).toContain("a frame of version 9, and this release reads 1");
});
