/**
 * VirtualClock: time that stands still until a test or the simulator moves it, so that equal inputs give equal runs.
 *
 *   VCLOCK-1. Due callbacks run in order of (instant, insertion). An alarm set to the past counts as set to now, so it
 *             can't starve those that are already due.
 *   VCLOCK-2. A turn is one instant: everything due at it runs, then the end-of-turn callbacks. Whatever they make due
 *             at the same instant forms another turn before time moves on.
 *   VCLOCK-3. `now()` inside a turn is its instant exactly: alarms are never late here.
 *   VCLOCK-4. An instant at which more than `firesMax` callbacks run is a loop that would never end: it throws.
 */
import { IndexedHeap } from "@tutti/collections";
import { ALWAYS, type Instant, type Micros, NEVER, after, assert, instant, later, micros } from "@tutti/units";
import type { Alarm, Clock, Stop } from "./clock.ts";

export interface VirtualClockOptions {
  /**
   * Default: 2026-01-01T00:00:00Z, a moment like those of production, so that nothing passes only because numbers are
   * small.
   */
  readonly startAt?: Instant;
  /** Value of `lateness()`: the guard that schedulers plan with. Default: 0. */
  readonly lateness?: Micros;
  /**
   * Whether each reading is later than the one before, as with a real clock. Default: only turns move time (VCLOCK-3).
   */
  readonly moves?: boolean;
  /** Most armed alarms and repeating timers at once; one more is a broken invariant. */
  readonly timersMax?: number;
  /** Most callbacks at one instant; one more throws. */
  readonly firesMax?: number;
}

export const VIRTUAL_START = instant(Date.UTC(2026, 0, 1) * 1000);
const TIMERS_MAX = 1 << 22;
const FIRES_MAX = 10_000_000;

export class VirtualClock implements Clock {
  readonly #lateness: Micros;
  readonly #moves: boolean;
  readonly #firesMax: number;
  readonly #due: IndexedHeap;
  /** Callbacks by key of the heap. Keys of alarms that fired are reused, so memory follows the number of armed ones. */
  readonly #fires: ((() => void) | undefined)[] = [];
  readonly #freeKeys: number[] = [];
  #now: Instant;
  #read: Instant = ALWAYS;
  #insertions = 0;
  #turnEnd: (() => void)[] = [];
  #running = false;

  constructor(options: VirtualClockOptions = {}) {
    this.#now = options.startAt ?? VIRTUAL_START;
    this.#lateness = options.lateness ?? (0 as Micros);
    this.#moves = options.moves ?? false;
    this.#firesMax = options.firesMax ?? FIRES_MAX;
    this.#due = new IndexedHeap(options.timersMax ?? TIMERS_MAX);
  }

  now(): Instant {
    if (!this.#moves) return this.#now;
    this.#read = later(this.#now, after(this.#read, micros(1)));
    return this.#read;
  }
  lateness(): Micros {
    return this.#lateness;
  }
  /** Instant of the next event: now if a turn is pending, NEVER if nothing is armed. */
  get nextAt(): Instant {
    return this.#turnEnd.length > 0 ? this.#now : (this.#due.topPriority as Instant);
  }

  alarm(fire: () => void): Alarm {
    let key = -1;
    const fireOnce = (): void => {
      this.#release(key);
      key = -1;
      fire();
    };
    return {
      set: (at) => {
        if (at === NEVER) return void (key = this.#cancel(key));
        if (key < 0) key = this.#claim(fireOnce);
        this.#insert(key, at);
      },
      clear: () => void (key = this.#cancel(key)),
    };
  }

  /** Ticks at start + period, start + 2·period, …: without drift. */
  every(period: Micros, run: () => void): Stop {
    assert(period > 0, "a repeating timer needs a period");
    let next = after(this.#now, period);
    let key = this.#claim(() => {
      next = after(next, period);
      this.#insert(key, next);
      run();
    });
    this.#insert(key, next);
    return { stop: () => void (key = this.#cancel(key)) };
  }

  endOfTurn(run: () => void): void {
    this.#turnEnd.push(run);
  }

  /** Runs everything due up to and including `end`, turn by turn; then it is `end`. */
  advanceTo(end: Instant): void {
    this.#assertOutside();
    assert(end >= this.#now, `time would run backwards, from ${this.#now} to ${end}`);
    while (this.nextAt <= end) this.#turn();
    this.#now = end;
  }
  advanceBy(duration: Micros): void {
    this.advanceTo(after(this.#now, duration));
  }
  /**
   * Runs turn by turn until `done()` holds; time stays at the turn that made it so. It returns false if `done()`
   * doesn't hold by `limit`. Then it is `limit`, or the last turn's instant if `limit` is NEVER and nothing is armed
   * any more.
   */
  runUntil(done: () => boolean, limit: Instant): boolean {
    this.#assertOutside();
    while (!done()) {
      if (this.nextAt > limit || this.nextAt === NEVER) {
        if (limit !== NEVER) this.#now = later(this.#now, limit);
        return false;
      }
      this.#turn();
    }
    return true;
  }

  /** Runs everything that is due at the next instant (VCLOCK-2). */
  #turn(): void {
    this.#running = true;
    try {
      this.#now = later(this.#now, this.nextAt);
      let fires = 0;
      do {
        while (this.#due.topPriority <= this.#now) {
          fires++;
          assert(fires <= this.#firesMax, `more than ${this.#firesMax} fires at ${this.#now}: time doesn't advance`);
          this.#fires[this.#due.pop()]?.();
        }
        const callbacks = this.#turnEnd;
        this.#turnEnd = [];
        for (const run of callbacks) run();
        fires += callbacks.length;
        assert(fires <= this.#firesMax, `more than ${this.#firesMax} callbacks at ${this.#now}: time doesn't advance`);
      } while (this.nextAt <= this.#now);
    } finally {
      this.#running = false;
    }
  }

  #assertOutside(): void {
    assert(!this.#running, "time is moved from outside, never by what runs in it");
  }
  #insert(key: number, at: Instant): void {
    this.#due.set(key, later(at, this.#now), this.#insertions++);
  }
  #claim(fire: () => void): number {
    const key = this.#freeKeys.pop() ?? this.#fires.length;
    this.#fires[key] = fire;
    return key;
  }
  #release(key: number): void {
    this.#fires[key] = undefined;
    this.#freeKeys.push(key);
  }
  /** Cancels a timer. @returns −1, the key of no timer, for the caller to keep */
  #cancel(key: number): number {
    if (key >= 0) {
      this.#due.remove(key);
      this.#release(key);
    }
    return -1;
  }
}
