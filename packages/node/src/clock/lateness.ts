/**
 * Lateness of alarms over a moving window: the guard of docs/algorithms.md, A9. Bounded memory: two histograms that
 * alternate, and the last percentiles.
 */
import { type Instant, type Micros, after } from "@tutti/units";
import { DurationHistogram } from "../event-loop/duration-histogram.ts";

export interface LatenessOptions {
  /** The guard is never less than this. */
  readonly floor: Micros;
  /** The guard looks back over half this window to the whole of it. */
  readonly window: Micros;
}

export interface LatenessReport {
  /** Counted since the clock was made. */
  readonly fires: number;
  readonly within100us: number;
  /** Percentiles of the window: upper edges of buckets that are 6 % wide. */
  readonly p50: Micros;
  readonly p90: Micros;
  readonly p99: Micros;
  readonly p999: Micros;
  /**
   * p99.9 of the window, at least the floor. The cap is five times the larger of the floor and the median p99.9 of the
   * last minutes.
   */
  readonly guard: Micros;
  /** The guard is at its cap: timers have become much later than usual. */
  readonly capped: boolean;
}

const HISTORY_MAX = 120;
const CAP_FACTOR = 5;
/** Half windows at the floor that the history begins with: a start under load is not representative. */
const HISTORY_SEED = 12;

export class LatenessMeter {
  readonly #floor: number;
  readonly #halfWindow: Micros;
  #current = new DurationHistogram();
  #previous = new DurationHistogram();
  #ever = { fires: 0, within100us: 0 };
  #rotateAt: Instant;
  /** p99.9 of the window at the end of each half window, where alarms fired in it. */
  readonly #history: number[];
  #guard: number;
  #capped = false;

  constructor(options: LatenessOptions, now: Instant) {
    this.#floor = options.floor;
    this.#halfWindow = Math.ceil(options.window / 2) as Micros;
    this.#guard = options.floor;
    this.#history = new Array<number>(HISTORY_SEED).fill(options.floor);
    this.#rotateAt = after(now, this.#halfWindow);
  }

  record(lateness: number, now: Instant): void {
    if (now >= this.#rotateAt) this.#rotate(now);
    this.#current.record(lateness);
    this.#ever.fires++;
    if (lateness <= 100) this.#ever.within100us++;
  }

  /** Changes once in half a window, so that a scheduler's plans don't change with every fire. */
  guard(now: Instant): Micros {
    if (now >= this.#rotateAt) this.#rotate(now);
    return this.#guard as Micros;
  }

  report(now: Instant): LatenessReport {
    const guard = this.guard(now);
    const percentile = (q: number): Micros => this.#percentile(q) as Micros;
    return {
      ...this.#ever,
      p50: percentile(0.5),
      p90: percentile(0.9),
      p99: percentile(0.99),
      p999: percentile(0.999),
      guard,
      capped: this.#capped,
    };
  }

  #rotate(now: Instant): void {
    if (this.#current.count + this.#previous.count > 0) {
      const measured = this.#percentile(0.999);
      this.#history.push(measured);
      if (this.#history.length > HISTORY_MAX) this.#history.shift();
      const sorted = this.#history.toSorted((a, b) => a - b);
      const median = sorted[(sorted.length - 1) >> 1] ?? 0;
      const cap = CAP_FACTOR * Math.max(this.#floor, median);
      this.#capped = measured > cap;
      this.#guard = Math.max(this.#floor, Math.min(cap, measured));
    }
    [this.#current, this.#previous] = [this.#previous, this.#current];
    this.#current.clear();
    this.#rotateAt = after(now, this.#halfWindow);
  }

  #percentile(q: number): number {
    return DurationHistogram.percentile([this.#current, this.#previous], q);
  }
}
