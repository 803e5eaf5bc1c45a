/**
 * Unix time that never steps: a monotonic counter plus an offset. Pure; all times in microseconds.
 *
 *   N1. Later readings are never less than earlier ones, whatever the wall clock does.
 *   N2. Corrections slew: 500 ppm at most, so ten milliseconds are at most 5 µs long or short.
 */
import type { Instant } from "@tutti/units";

/** Largest slew rate: NTP's own. */
export const SLEW_MAX = 500e-6;

export class AnchoredTime {
  /** The offset is #from at #since and moves towards #to. */
  #since = 0;
  #from: number;
  #to: number;
  #settledAt = -Infinity;
  #last = -Infinity;

  constructor(offset: number) {
    this.#from = offset;
    this.#to = offset;
  }

  at(monotonic: number): Instant {
    const reading = Math.floor(monotonic + this.#offsetAt(monotonic));
    // Rounding alone could give 1 µs back while an offset shrinks (N1).
    return (reading > this.#last ? (this.#last = reading) : this.#last) as Instant;
  }

  /**
   * Counter value at that instant. It is exact except while slewing, when it may be early or late by 500 ppm of the
   * time until then.
   */
  monotonicAt(instant: Instant, now: number): number {
    return instant - this.#offsetAt(now);
  }

  /** The offset that this time has, or moves to. */
  get target(): number {
    return this.#to;
  }
  /** Error of this time against its target offset. */
  errorAt(monotonic: number): number {
    return this.#to - this.#offsetAt(monotonic);
  }

  /** Slews from now on to `offset`, the lead of the wall clock over the counter (N2). */
  correct(monotonic: number, offset: number): void {
    this.#from = this.#offsetAt(monotonic);
    this.#since = monotonic;
    this.#to = offset;
    this.#settledAt = monotonic + Math.abs(offset - this.#from) / SLEW_MAX;
  }

  #offsetAt(monotonic: number): number {
    if (monotonic >= this.#settledAt) return this.#to;
    const step = (monotonic - this.#since) * SLEW_MAX;
    return this.#to > this.#from ? this.#from + step : this.#from - step;
  }
}
