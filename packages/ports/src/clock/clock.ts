import type { Instant, Micros } from "@tutti/units";

/** The clock port: the one place where actors read time, and the only source of timers. */
export interface Clock {
  /** The current time; it never steps back. */
  now(): Instant;
  /** A precise timer (docs/architecture.md, 8: within 100 µs): fires once at or after the instant it is set to. */
  alarm(fire: () => void): Alarm;
  /** A coarse, cheap, repeating timer for housekeeping. */
  every(period: Micros, run: () => void): Stop;
  /** Runs a callback at the end of this turn of the event loop, after everything that already arrived was delivered. */
  endOfTurn(run: () => void): void;
  /** Lateness of alarms: a high percentile over the last window; the guard of docs/algorithms.md A9. */
  lateness(): Micros;
}

export interface Alarm {
  /** Replaces the previous setting; a moment in the past fires at the end of the turn; NEVER clears. */
  set(at: Instant): void;
  clear(): void;
}
export interface Stop {
  stop(): void;
}
