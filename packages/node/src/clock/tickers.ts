/**
 * Repeating timers of a process. Timers of one period share a timer, and periods tick together where they can: an idle
 * process is woken once for all of them. Work that is in no hurry then gets a small share of the time, in slices, so
 * that what comes meanwhile waits for a slice and not for all.
 */
import type { Stop } from "@tutti/ports/clock";

interface Task {
  readonly run: () => void;
  /** It first runs after half a period at least. */
  readonly notBeforeMs: number;
}

interface Ticker {
  readonly tasks: Set<Task>;
  timer: NodeJS.Timeout;
}

/** Timers of this period and longer are in no hurry, unlike heartbeats and what is faster. */
const SLOW_MS = 250;
/** A slice begins no task once others have taken so long in it. */
const SLICE_MS = 0.3;
/** Share of the time that slices take while any are left … */
const SHARE = 0.1;
/** … and the longest pause between two: tasks that are long themselves must not keep the others waiting for ever. */
const PAUSE_MS_MAX = 20;

export class Tickers {
  readonly #tickers = new Map<number, Ticker>();
  /** Slow tasks that have ticked and not run yet: the one that ticked first comes first. */
  readonly #due = new Set<Task>();
  #nextSlice: NodeJS.Timeout | undefined;

  /** @param periodMs - a whole number, at least 1 */
  every(periodMs: number, run: () => void): Stop {
    const task: Task = { run, notBeforeMs: performance.now() + periodMs / 2 };
    const ticker = this.#tickerOf(periodMs);
    ticker.tasks.add(task);
    return {
      stop: () => {
        ticker.tasks.delete(task);
        this.#due.delete(task);
        if (ticker.tasks.size > 0 || this.#tickers.get(periodMs) !== ticker) return;
        clearTimeout(ticker.timer);
        this.#tickers.delete(periodMs);
      },
    };
  }

  close(): void {
    for (const { timer } of this.#tickers.values()) clearTimeout(timer);
    clearTimeout(this.#nextSlice);
    this.#tickers.clear();
    this.#due.clear();
  }

  #tickerOf(periodMs: number): Ticker {
    let ticker = this.#tickers.get(periodMs);
    if (ticker !== undefined) return ticker;
    ticker = { tasks: new Set(), timer: this.#timer(periodMs, performance.now()) };
    this.#tickers.set(periodMs, ticker);
    return ticker;
  }

  /** A timer for the first multiple of the period after a time, so that 20, 100 and 1,000 ms coincide. */
  #timer(periodMs: number, afterMs: number): NodeJS.Timeout {
    const dueMs = periodMs * (Math.floor(afterMs / periodMs) + 1);
    return setTimeout(() => this.#tick(periodMs), Math.max(1, Math.round(dueMs - performance.now()))).unref();
  }

  #tick(periodMs: number): void {
    const ticker = this.#tickers.get(periodMs);
    if (ticker === undefined) return;
    const now = performance.now();
    // Node's timers may fire early, by as much as the turn took that set them: the tick that is near is over all the
    // same.
    ticker.timer = this.#timer(periodMs, now + periodMs / 2);
    for (const task of ticker.tasks) {
      if (now < task.notBeforeMs) continue;
      if (periodMs < SLOW_MS) task.run();
      else this.#due.add(task);
    }
    if (this.#due.size > 0 && this.#nextSlice === undefined) this.#runSlice();
  }

  #runSlice(): void {
    this.#nextSlice = undefined;
    const beganMs = performance.now();
    let tookMs = 0;
    try {
      for (const task of this.#due) {
        this.#due.delete(task);
        task.run();
        tookMs = performance.now() - beganMs;
        if (tookMs >= SLICE_MS) break;
      }
    } finally {
      const pauseMs = Math.min(PAUSE_MS_MAX, Math.max(1, Math.round(tookMs / SHARE - tookMs)));
      if (this.#due.size > 0) this.#nextSlice = setTimeout(() => this.#runSlice(), pauseMs).unref();
    }
  }
}
