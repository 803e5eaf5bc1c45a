/**
 * DelayEstimator: a delay measured while running (d_ctrl, d_data, the timer guard). It is a high quantile over a
 * sliding window, never below a floor. It is never above `capTimes` its median over a long window, so that one bad
 * second can't make every batch infeasible for good. docs/architecture.md, section 5.
 */
import { assert, type Instant, type Micros } from "@tutti/units";
import { SlidingHistogram } from "./log-histogram.ts";

/** Length of the long window, in short windows: the usual delay must outlive a bad period. */
const LONG_TIMES = 30;
/** Samples, and share of the window, after which the quantile is looked up again: a lookup walks 640 buckets. */
const SAMPLES_BETWEEN = 64;
const WINDOW_BETWEEN = 1 / 200;

export interface DelayEstimatorOptions {
  /** Least value: the delay that is assumed before anything was measured. */
  readonly floor: Micros;
  /** 0 … 1, e.g. 0.99. */
  readonly quantile: number;
  readonly window: Micros;
  readonly capTimes: number;
}

export class DelayEstimator {
  readonly #floor: Micros;
  readonly #quantile: number;
  readonly #capTimes: number;
  readonly #lookupEvery: number;
  readonly #recent: SlidingHistogram;
  readonly #usual: SlidingHistogram;
  #value: Micros;
  #capped = false;
  #samplesSince = 0;
  #lookupDue = -Infinity;

  constructor({ floor, quantile, window, capTimes }: DelayEstimatorOptions) {
    assert(quantile > 0 && quantile <= 1, `quantile ${quantile}`);
    assert(capTimes >= 1, `a cap of ${capTimes} medians`);
    this.#floor = floor;
    this.#quantile = quantile;
    this.#capTimes = capTimes;
    this.#lookupEvery = window * WINDOW_BETWEEN;
    this.#recent = new SlidingHistogram(window);
    this.#usual = new SlidingHistogram(window * LONG_TIMES);
    this.#value = floor;
  }

  note(at: Instant, sample: Micros): void {
    this.#recent.note(at, sample);
    this.#usual.note(at, sample);
    this.#samplesSince++;
  }

  /** Delay to plan with at `at`. Without recent samples: the long window's median. */
  value(at: Instant): Micros {
    if (at >= this.#lookupDue || this.#samplesSince >= SAMPLES_BETWEEN) this.#lookUp(at);
    return this.#value;
  }
  /** Whether the measured quantile is above the cap. If so, report it and probe. */
  capped(at: Instant): boolean {
    this.value(at);
    return this.#capped;
  }

  #lookUp(at: Instant): void {
    this.#samplesSince = 0;
    this.#lookupDue = at + this.#lookupEvery;
    const median = this.#usual.quantile(at, 0.5);
    const cap = Math.max(this.#floor, Math.ceil(this.#capTimes * median));
    const measured = this.#recent.count(at) > 0 ? this.#recent.quantile(at, this.#quantile) : median;
    this.#capped = measured > cap;
    this.#value = Math.max(this.#floor, Math.min(cap, Math.ceil(measured))) as Micros;
  }
}
