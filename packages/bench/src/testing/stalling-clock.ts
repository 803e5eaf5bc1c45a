/** A clock of a process that stalls for a while, for tests: alarms that fall due meanwhile fire afterwards. */
import type { Alarm, Clock, Stop } from "@tutti/ports/clock";
import type { Instant, Micros } from "@tutti/units";

export class StallingClock implements Clock {
  readonly #clock: Clock;
  readonly #from: Instant;
  readonly #until: Instant;

  constructor(clock: Clock, { from, until }: { readonly from: Instant; readonly until: Instant }) {
    this.#clock = clock;
    this.#from = from;
    this.#until = until;
  }

  now(): Instant {
    return this.#clock.now();
  }
  alarm(fire: () => void): Alarm {
    const alarm = this.#clock.alarm(fire);
    return {
      set: (at) => alarm.set(this.#stalls(at) ? this.#until : at),
      clear: () => alarm.clear(),
    };
  }
  every(period: Micros, run: () => void): Stop {
    const later = this.#clock.alarm(run);
    return this.#clock.every(period, () => {
      if (this.#stalls(this.#clock.now())) later.set(this.#until);
      else run();
    });
  }
  endOfTurn(run: () => void): void {
    this.#clock.endOfTurn(run);
  }
  lateness(): Micros {
    return this.#clock.lateness();
  }
  #stalls(at: Instant): boolean {
    return at >= this.#from && at < this.#until;
  }
}
