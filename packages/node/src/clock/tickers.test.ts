import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Tickers } from "./tickers.ts";

let tickers: Tickers;
beforeEach(() => {
  vi.useFakeTimers();
  tickers = new Tickers();
});
afterEach(() => {
  tickers.close();
  vi.useRealTimers();
});

/** Times in milliseconds at which a timer of this period ticks. */
function ticksOf(periodMs: number): number[] {
  const ticks: number[] = [];
  tickers.every(periodMs, () => ticks.push(Math.round(performance.now())));
  return ticks;
}

test("timers of one period tick together, and those of a multiple with them", () => {
  const [a, b, c] = [10, 10, 40].map(ticksOf);
  vi.advanceTimersByTime(400);
  expect(a!.length).toBeGreaterThanOrEqual(39);
  expect(b).toEqual(a);
  for (const at of c!) expect(a).toContain(at);
});

function work(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test("slow tasks that tick together run in slices with a tenth of the time", async () => {
  vi.useRealTimers();
  const startsMs: number[] = [];
  await new Promise<void>((resolve) => {
    for (let i = 0; i < 4; i++)
      tickers.every(250, () => {
        startsMs.push(performance.now());
        work(1);
        if (startsMs.length === 4) resolve();
      });
  });
  const pausesMs = startsMs.slice(1).map((startMs, i) => startMs - startsMs[i]!);
  for (const pauseMs of pausesMs) expect(pauseMs).toBeGreaterThan(8);
});

test("a task that waits for its slice is not due twice, and not once it is stopped", async () => {
  vi.useRealTimers();
  const log: string[] = [];
  await new Promise<void>((resolve) => {
    tickers.every(250, () => {
      log.push("long");
      stopped.stop();
      work(300); // all tick again before the next slice
    });
    const stopped = tickers.every(250, () => log.push("stopped"));
    tickers.every(250, () => {
      log.push("last");
      if (log.length >= 6) resolve();
    });
  });
  expect(log).not.toContain("stopped");
  expect(log.join(" ")).not.toContain("last last");
});

test("each period has one tick, the first after half a period to one and a half", () => {
  for (const periodMs of [1, 5, 40, 250, 1_000]) {
    const beganMs = performance.now();
    const ticks = ticksOf(periodMs);
    vi.advanceTimersByTime(20 * periodMs);
    expect(ticks[0]! - beganMs).toBeGreaterThanOrEqual(periodMs / 2 - 1);
    expect(ticks[0]! - beganMs).toBeLessThanOrEqual(1.5 * periodMs + 1);
    expect([19, 20]).toContain(ticks.length);
  }
});

test("a timer of Node that fires before its time makes no second tick of the same", async () => {
  vi.useRealTimers();
  const ticksMs: number[] = [];
  await new Promise<void>((resolve) => {
    tickers.every(20, () => {
      ticksMs.push(performance.now());
      if (ticksMs.length === 12) resolve();
    });
  });
  expect(ticksMs.at(-1)! - ticksMs[0]!).toBeGreaterThan(11 * 20 - 5);
});

test("a timer that is stopped, also by another in the same tick, runs no more; the last one to stop ends the ticking", () => {
  const log: string[] = [];
  const first = tickers.every(5, () => {
    log.push("first");
    second.stop();
  });
  const second = tickers.every(5, () => log.push("second"));
  vi.advanceTimersByTime(23);
  expect(log).toEqual(["first", "first", "first", "first"]);
  first.stop();
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(20);
  expect(log.length).toBe(4);
});
