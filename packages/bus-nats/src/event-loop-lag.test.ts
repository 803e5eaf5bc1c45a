import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { EventLoopLag } from "./event-loop-lag.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** @param silentFromMs - nothing comes from then on; by default something always does */
function scene(silentFromMs = Infinity) {
  const startedMs = Date.now();
  const pongs: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const slow: number[] = [];
  const stoodStill: number[] = [];
  const silent: string[] = [];
  let received = 0;
  const probe = new EventLoopLag({
    everyMs: 100,
    slowMs: 1_000,
    silentMs: 700,
    received: () => (Date.now() - startedMs > silentFromMs ? received : ++received),
    now: () => Date.now(),
    flush: () => new Promise((resolve, reject) => pongs.push({ resolve, reject })),
    onSlow: (lagMs, stoodStillMs) => {
      slow.push(lagMs);
      stoodStill.push(stoodStillMs);
    },
    onSilent: (lagMs) => silent.push(`silent for ${lagMs}`),
    onHeard: (lagMs) => silent.push(`heard after ${lagMs}`),
  });
  return { pongs, slow, stoodStill, silent, probe };
}

test("one PING is under way at a time, and a prompt PONG is no news", async () => {
  const { pongs, slow, probe } = scene();
  await vi.advanceTimersByTimeAsync(350);
  expect([pongs.length, probe.lagMs]).toEqual([1, 250]);
  pongs[0]!.resolve();
  await vi.advanceTimersByTimeAsync(100);
  expect([pongs.length, probe.lagMs, slow]).toEqual([2, 50, []]);
  probe.stop();
});

test("a PONG that is late is told while it is awaited, once, and again only after a prompt one", async () => {
  const { pongs, slow, stoodStill, probe } = scene();
  await vi.advanceTimersByTimeAsync(3_000);
  expect([slow, stoodStill]).toEqual([[1_000], [0]]);
  pongs.at(-1)!.resolve();
  await vi.advanceTimersByTimeAsync(100);
  await vi.advanceTimersByTimeAsync(600);
  pongs.at(-1)!.resolve();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(slow).toEqual([1_000]);
  pongs.at(-1)!.resolve();
  await vi.advanceTimersByTimeAsync(100);
  pongs.at(-1)!.resolve();
  await vi.advanceTimersByTimeAsync(1_500);
  expect(slow.length).toBe(2);
  probe.stop();
});

test("what a stall of our own hid is told when the PONG is read at last", async () => {
  const { pongs, slow, stoodStill, probe } = scene();
  await vi.advanceTimersByTimeAsync(100);
  vi.setSystemTime(Date.now() + 5_000); // no timer has run meanwhile
  pongs[0]!.resolve();
  await vi.advanceTimersByTimeAsync(0);
  expect([slow, stoodStill]).toEqual([[5_000], [4_900]]);
  probe.stop();
});

test("what came during a standstill is its doing, also where the PING went out just after it", async () => {
  const { slow, stoodStill, probe } = scene();
  await vi.advanceTimersByTimeAsync(50);
  vi.setSystemTime(Date.now() + 5_000);
  await vi.advanceTimersByTimeAsync(1_500);
  expect([slow, stoodStill]).toEqual([[1_000], [5_000]]);
  probe.stop();
});

test("a standstill explains no lag of a PING that went out long after it, nor a far longer one", async () => {
  const early = scene();
  await vi.advanceTimersByTimeAsync(50);
  vi.setSystemTime(Date.now() + 5_000);
  await vi.advanceTimersByTimeAsync(50);
  early.pongs[0]!.resolve();
  await vi.advanceTimersByTimeAsync(250);
  early.pongs[1]!.resolve();
  await vi.advanceTimersByTimeAsync(3_000);
  expect([early.slow, early.stoodStill]).toEqual([[1_000], [0]]);
  early.probe.stop();
  const long = scene();
  await vi.advanceTimersByTimeAsync(100);
  vi.setSystemTime(Date.now() + 700);
  await vi.advanceTimersByTimeAsync(300);
  expect([long.slow, long.stoodStill]).toEqual([[1_000], [700]]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect([long.probe.lagMs, long.probe.stoodStillMs]).toEqual([2_000, 0]);
  long.probe.stop();
});

test("a connection that breaks is not behind", async () => {
  const { pongs, slow, probe } = scene();
  await vi.advanceTimersByTimeAsync(500);
  pongs[0]!.reject(new Error("broken"));
  await vi.advanceTimersByTimeAsync(50);
  expect([probe.lagMs, slow]).toEqual([0, []]);
  probe.stop();
});

test("a server from which nothing comes is silent, and this side not slow", async () => {
  const { pongs, slow, silent, probe } = scene(-1);
  await vi.advanceTimersByTimeAsync(3_000);
  expect([silent, probe.isSilent, slow]).toEqual([["silent for 700"], true, []]);
  pongs[0]!.resolve();
  await vi.advanceTimersByTimeAsync(0);
  expect([silent[1], probe.isSilent, slow]).toEqual(["heard after 2900", false, []]);
  await vi.advanceTimersByTimeAsync(900);
  pongs[1]!.reject(new Error("broken"));
  await vi.advanceTimersByTimeAsync(50);
  expect([silent.slice(2), probe.isSilent]).toEqual([["silent for 700"], false]);
  probe.stop();
});

test("a server that hangs after it has sent more, but no PONG, is silent, too", async () => {
  const { slow, silent, probe } = scene(250);
  await vi.advanceTimersByTimeAsync(2_000);
  expect([silent, slow]).toEqual([["silent for 700"], []]);
  probe.stop();
});

test("nothing comes for a process that stands still, which proves no silence", async () => {
  const { pongs, silent, stoodStill, probe } = scene(-1);
  await vi.advanceTimersByTimeAsync(100);
  vi.setSystemTime(Date.now() + 5_000);
  await vi.advanceTimersByTimeAsync(100);
  pongs[0]!.resolve();
  await vi.advanceTimersByTimeAsync(0);
  expect([silent, stoodStill]).toEqual([[], [5_000]]);
  probe.stop();
});
