/**
 * Repeating timers of a process. Timers of one period share a timer, and periods tick together where they can: an idle
 * process is woken once for all of them.
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

export class Tickers {
  readonly #tickers = new Map<number, Ticker>();

  /** @param periodMs - a whole number, at least 1 */
  every(periodMs: number, run: () => void): Stop {
    const task: Task = { run, notBeforeMs: performance.now() + periodMs / 2 };
    const ticker = this.#tickerOf(periodMs);
    ticker.tasks.add(task);
    return {
      stop: () => {
        ticker.tasks.delete(task);
        if (ticker.tasks.size > 0 || this.#tickers.get(periodMs) !== ticker) return;
        clearTimeout(ticker.timer);
        this.#tickers.delete(periodMs);
      },
    };
  }

  close(): void {
    for (const { timer } of this.#tickers.values()) clearTimeout(timer);
    this.#tickers.clear();
  }

  #tickerOf(periodMs: number): Ticker {
    let ticker = this.#tickers.get(periodMs);
    if (ticker === undefined) this.#tickers.set(periodMs, (ticker = { tasks: new Set(), timer: this.#next(periodMs) }));
    return ticker;
  }

  /** At the next multiple of the period, so that 20, 100 and 1,000 ms coincide. */
  #next(periodMs: number): NodeJS.Timeout {
    const waitMs = periodMs - (performance.now() % periodMs);
    // A timer that fires half a millisecond early would fire twice.
    return setTimeout(() => this.#tick(periodMs), Math.max(1, Math.ceil(waitMs))).unref();
  }

  #tick(periodMs: number): void {
    const ticker = this.#tickers.get(periodMs);
    if (ticker === undefined) return;
    ticker.timer = this.#next(periodMs);
    const now = performance.now();
    for (const task of ticker.tasks) if (now >= task.notBeforeMs) task.run();
  }
}
