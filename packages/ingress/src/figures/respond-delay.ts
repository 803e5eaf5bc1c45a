import type { Clock } from "@tutti/ports/clock";
import { DelayEstimator } from "@tutti/profile";
import { type Instant, type Micros, between, millis, seconds } from "@tutti/units";

/**
 * Latest answer after the deadline. Clients give up 100 ms after the deadline (T1): however slow answers have been
 * lately, half of that is left for the way to them.
 */
const ANSWERED_WITHIN = millis(50);

/** d_resp: the delay from the end of a run to its answer. */
export class RespondDelay {
  readonly #clock: Clock;
  readonly #estimator: DelayEstimator;

  constructor(clock: Clock, floor: Micros) {
    this.#clock = clock;
    this.#estimator = new DelayEstimator({ floor, quantile: 0.99, window: seconds(10), capTimes: 5 });
  }

  /** An answer leaves now. */
  note(finishedAt: Instant): void {
    const now = this.#clock.now();
    this.#estimator.note(now, between(finishedAt, now));
  }

  now(): Micros {
    return this.#estimator.value(this.#clock.now());
  }

  /** How long after the deadline a request's timer fires: answers under way still count, and requesters still wait. */
  withinLimit(): Micros {
    const respond = this.now();
    return respond < ANSWERED_WITHIN ? respond : ANSWERED_WITHIN;
  }
}
