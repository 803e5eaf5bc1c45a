/** Bounds of what actors share, each reached: docs/limits.md (T7). */
import { InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { FRAME_BYTES_MAX, type Heartbeat, RequestWithdrawn, StatsReported } from "@tutti/protocol";
import { type ActorKey, actorKey, instant, millis, threadId } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { ArrivalOrder } from "./batcher/arrival-order.ts";
import { PeerRegistry } from "./runtime/peer-registry.ts";
import { Outbox } from "./runtime/outbox.ts";

const PEERS_MAX = 16_384;
const GONE_MAX = 1_024;
const WRITERS_MAX = 4_096;
const GAPS_MAX = 64;

const beatOf = (key: number): Heartbeat => {
  const sentAt = instant(1_000_000);
  return { key: actorKey(key), role: "executor", host: "h", pid: 1, sentAt, startedAt: sentAt, leaving: false };
};

test("so many peers are known and no more; a newcomer is heard when there is room again", () => {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  let joined = 0;
  const registry = new PeerRegistry(clock, millis(100), { onJoin: () => joined++ });
  for (let key = 1; key <= PEERS_MAX + 100; key++) registry.hear(beatOf(key));
  expect(joined).toBe(PEERS_MAX);
  expect(registry.get(actorKey(PEERS_MAX + 1))).toBeUndefined();
  registry.lose(actorKey(7));
  registry.hear(beatOf(PEERS_MAX + 1));
  expect(registry.get(actorKey(PEERS_MAX + 1))).toBeDefined();
  registry.stop();
});

test("of those that are gone the last so many are remembered, and older ones are only unknown", () => {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const registry = new PeerRegistry(clock, millis(100), {});
  for (let key = 1; key <= GONE_MAX + 50; key++) {
    registry.hear(beatOf(key));
    registry.lose(actorKey(key));
  }
  expect(registry.isGone(actorKey(GONE_MAX + 50))).toBe(true);
  expect(registry.isGone(actorKey(51))).toBe(true);
  expect(registry.isGone(actorKey(50))).toBe(false);
  registry.stop();
});

function outboxScene() {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  const network = new InMemoryNetwork({
    deliver: (run) => run(),
    later: (run) => run(),
    startTimer: () => ({ stop: () => undefined }),
    choose: () => 0,
    payloadMax: 8_388_608,
  });
  const frames: { readonly subject: string; readonly bytes: number; readonly payload: Uint8Array }[] = [];
  const hearer = network.connect({ name: "hearer" });
  hearer.subscribe("to.>", ({ subject, payload }) => {
    frames.push({ subject, bytes: payload.byteLength, payload: payload.slice() });
  });
  const outbox = new Outbox(network.connect({ name: "sender" }), clock, 1 as ActorKey);
  return { clock, frames, outbox };
}

test("a frame that is full leaves early, and nothing of it is lost", () => {
  const { clock, frames, outbox } = outboxScene();
  const figures = { text: 1 };
  const name = "n".repeat(10_000);
  const perThread = [{ thread: threadId(1, 0), name, figures }];
  const report = { key: actorKey(1), role: "batcher", at: clock.now(), figures, perThread } as const;
  for (let i = 0; i < 60; i++) outbox.add("to.one", StatsReported, report);
  expect(frames.length).toBeGreaterThanOrEqual(2);
  clock.advanceTo(instant(clock.now() + 10_000));
  for (const { bytes } of frames) expect(bytes).toBeLessThan(FRAME_BYTES_MAX + 20_000);
  let heard = 0;
  const reader = new FrameReader();
  reader.on(StatsReported, () => heard++);
  for (const { payload } of frames) expect(reader.read(payload)).toBeUndefined();
  expect(heard).toBe(60);
});

test("for more destinations than keep a writer, idle ones are let go, and each still gets what is for it", () => {
  const { clock, frames, outbox } = outboxScene();
  const rounds = 3;
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < WRITERS_MAX; i++)
      outbox.add(`to.r${round}-${i}`, RequestWithdrawn, { thread: threadId(1, 0), seq: 1 as never });
    clock.advanceTo(instant(clock.now() + 10_000));
  }
  expect(frames.length).toBe(rounds * WRITERS_MAX);
  expect(new Set(frames.map(({ subject }) => subject)).size).toBe(rounds * WRITERS_MAX);
});

test("of arrivals that are missing so many gaps are remembered; beyond, what comes late counts as a repetition", () => {
  const order = new ArrivalOrder();
  const ingress = actorKey(5);
  const thread = threadId(1, 0);
  // Every second arrival is lost: a gap each.
  const missed = (gap: number): number => 2 * gap + 1;
  for (let gap = 0; gap <= GAPS_MAX; gap++)
    expect(order.note(ingress, thread, 1, missed(gap) + 1)).toEqual({ from: missed(gap), to: missed(gap) + 1 });
  expect(order.note(ingress, thread, 1, missed(GAPS_MAX))).toBe("repeated");
  expect(order.note(ingress, thread, 1, missed(GAPS_MAX - 1))).toBe("fresh");
  expect(order.note(ingress, thread, 1, missed(GAPS_MAX) + 2)).toBe("fresh");
});
