/**
 * NodeClock: real time for one process. One monotonic counter anchored to the wall clock, one heap of all alarms, one
 * worker thread that sleeps until shortly before the first of them (docs/architecture.md, 5 and 8).
 *
 *   CLOCK-1. `now()` never steps back, and slews by 500 ppm at most (AnchoredTime).
 *   CLOCK-2. An alarm fires once per setting, never before its instant; a setting in the past counts as set to now.
 *   CLOCK-3. Alarms fire in order of (instant, insertion), and alarms set by their callbacks fire in a later turn, so
 *            that the event loop never starves.
 *   CLOCK-4. Without armed alarms the process only re-anchors every few seconds; the main thread never spins longer
 *            than SPIN_MAX_US at once.
 */
import { writeFileSync } from "node:fs";
import { IndexedHeap } from "@tutti/collections";
import type { Alarm, Clock, Stop } from "@tutti/ports/clock";
import { type Instant, type Micros, NEVER, assert, later, micros, seconds } from "@tutti/units";
import { AnchoredTime } from "./anchored-time.ts";
import { LatenessMeter, type LatenessReport } from "./lateness.ts";
import { HybridSleeper, LEAD_US, type Sleeper, TimeoutSleeper, WorkerSleeper } from "./sleeper.ts";
import { Tickers } from "./tickers.ts";
import { OffsetBounds, type TimeSources, measureOffset, nodeTimeSources } from "./wall-offset.ts";

export interface NodeClockOptions {
  readonly reanchorPeriod?: Micros;
  /**
   * Called while the wall clock is `error` µs ahead of this one, more than `skewMax`. This clock slews there, and
   * repeats the call every `reanchorPeriod`.
   */
  readonly onSkew?: (error: number) => void;
  readonly skewMax?: Micros;
  /**
   * Called when the worker ended: from now on alarms fire with the event loop's own timers, half a millisecond late.
   */
  readonly onDegraded?: (reason: string) => void;
  /** For tests: simulated clocks. */
  readonly sources?: TimeSources;
}

/** Least lateness that alarms count on: what a quiet machine keeps in 99 % of fires. */
const LATENESS_FLOOR = micros(100);
/** Longest spin before an alarm: the spin makes the alarm exact; a longer one would keep messages waiting. */
export const SPIN_MAX_US = 150;
/**
 * Time limit of the first measurement: about a millisecond on an idle machine. At the start it may take longer: a bad
 * anchor would stay for seconds.
 */
const FIRST_MEASURE_US_MAX = 100_000;
const MEASURE_US_MAX = 5_000;
/** The clock looks for a wall-clock tick from this long before to this long after it is expected. */
const TICK_BEFORE_US = 20;
const TICK_AFTER_US = 60;
const TICK_WIDTH_US = 10;

export class NodeClock implements Clock {
  readonly #sources: TimeSources;
  readonly #time: AnchoredTime;
  readonly #meter: LatenessMeter;
  readonly #heap: IndexedHeap;
  /** Callbacks by key of the heap; keys of fired alarms are reused. */
  readonly #fires: ((() => void) | undefined)[] = [];
  readonly #insertedAs: number[] = [];
  readonly #freeKeys: number[] = [];
  #insertions = 0;
  /** Setting of the sleeper. It is NaN while the alarms run or a turn's end is pending, after which it is set anew. */
  #armedFor = Infinity;
  #sleeper: Sleeper;
  #worker: WorkerSleeper | undefined;
  readonly #workerReady = Promise.withResolvers<void>();
  readonly #onDegraded: (reason: string) => void;
  #turnEnd: (() => void)[] = [];
  #turnEndPending = false;
  readonly #tickers = new Tickers();
  readonly #onSkew: (error: number) => void;
  readonly #skewMax: number;
  #closed = false;

  constructor(options: NodeClockOptions = {}) {
    this.#sources = options.sources ?? nodeTimeSources;
    this.#time = new AnchoredTime(measureOffset(this.#sources, FIRST_MEASURE_US_MAX).middle);
    this.#meter = new LatenessMeter({ floor: LATENESS_FLOOR, window: seconds(10) }, this.now());
    this.#heap = new IndexedHeap(1 << 20); // armed at once: one more is a broken invariant
    this.#onSkew = options.onSkew ?? (() => undefined);
    this.#skewMax = options.skewMax ?? 1_000;
    this.#onDegraded = options.onDegraded ?? (() => undefined);
    this.#sleeper = new TimeoutSleeper(() => this.#fireDue(), this.#sources.monotonicUs);
    const tick = this.#makeAlarm(() => this.#watchTick());
    this.every(options.reanchorPeriod ?? seconds(4), () => this.#reanchor(tick));
  }

  now(): Instant {
    return this.#time.at(this.#sources.monotonicUs());
  }

  lateness(): Micros {
    return this.#meter.guard(this.now());
  }
  latenessReport(): LatenessReport {
    return this.#meter.report(this.now());
  }
  /** Settles when alarms are precise: some milliseconds after the first was made. */
  async ready(): Promise<void> {
    this.#startWorker();
    await this.#workerReady.promise;
  }

  alarm(fire: () => void): Alarm {
    this.#startWorker();
    return this.#makeAlarm(fire);
  }

  every(period: Micros, run: () => void): Stop {
    assert(period > 0, "a repeating timer needs a period");
    if (this.#closed) return { stop: () => undefined };
    return this.#tickers.every(Math.max(1, Math.round(period / 1e3)), run);
  }

  endOfTurn(run: () => void): void {
    if (this.#closed) return;
    this.#turnEnd.push(run);
    this.#pendTurnEnd();
  }

  /** Drops all alarms and timers, and ends the worker. */
  close(): void {
    this.#closed = true;
    this.#tickers.close();
    this.#heap.clear();
    this.#turnEnd = [];
    this.#sleeper.close();
    this.#worker?.close();
    this.#workerReady.resolve();
  }

  #makeAlarm(fire: () => void): Alarm {
    let key = -1;
    const fireOnce = (): void => {
      this.#release(key);
      key = -1;
      fire();
    };
    const clear = (): void => {
      if (key < 0) return;
      this.#heap.remove(key);
      this.#release(key);
      key = -1;
      this.#arm(NEVER);
    };
    const set = (at: Instant): void => {
      if (at === NEVER) return clear();
      if (this.#closed) return;
      if (key < 0) {
        key = this.#freeKeys.pop() ?? this.#fires.length;
        this.#fires[key] = fireOnce;
      }
      const now = this.now();
      const insertion = this.#insertions++;
      this.#insertedAs[key] = insertion;
      this.#heap.set(key, later(at, now), insertion);
      this.#arm(now);
    };
    return { set, clear };
  }
  #release(key: number): void {
    this.#fires[key] = undefined;
    this.#freeKeys.push(key);
  }

  /**
   * Arms the sleeper for the first alarm of the heap. `now`: NEVER if unknown and the first can only have become later.
   */
  #arm(now: Instant): void {
    const first = this.#heap.topPriority as Instant;
    if (first === this.#armedFor || Number.isNaN(this.#armedFor)) return;
    if (first === NEVER) this.#sleeper.sleep();
    else if (first - now <= LEAD_US && now !== NEVER) return this.#pendTurnEnd();
    else this.#sleeper.wakeAt(this.#time.monotonicAt(first, this.#sources.monotonicUs()));
    this.#armedFor = first;
  }

  /**
   * Schedules the end of this turn, which is the next setImmediate. Node runs those after it has delivered all data
   * that the sockets had to read, while a microtask runs after the first message already. One for all callbacks; due
   * alarms come first.
   */
  #pendTurnEnd(): void {
    if (this.#turnEndPending || this.#closed) return;
    this.#turnEndPending = true;
    this.#armedFor = NaN;
    setImmediate(() => {
      this.#turnEndPending = false;
      const callbacks = this.#turnEnd;
      this.#turnEnd = [];
      try {
        this.#fireDue();
      } finally {
        for (const run of callbacks) run();
      }
    });
  }

  /** Fires the alarms that are due, and those due within the bound on spinning. */
  #fireDue(): void {
    this.#armedFor = NaN;
    const insertionsBefore = this.#insertions;
    let now = this.now();
    const spinUntil = now + SPIN_MAX_US;
    try {
      for (let key = this.#heap.topKey; key >= 0; key = this.#heap.topKey) {
        const at = this.#heap.topPriority as Instant;
        if (at > spinUntil || (this.#insertedAs[key] ?? 0) >= insertionsBefore) break; // CLOCK-3, CLOCK-4
        while (now < at) now = this.#spin(at, now);
        const fire = this.#fires[key];
        this.#heap.pop();
        const lateness = now - at;
        fire?.();
        now = this.now();
        this.#meter.record(lateness, now);
      }
    } finally {
      if (!this.#turnEndPending) {
        this.#armedFor = -1;
        this.#arm(now);
      }
    }
  }

  /** Spins on the counter itself: a reading of the time is an object. @returns the time afterwards */
  #spin(until: Instant, now: Instant): Instant {
    const end = this.#sources.monotonicUs() + (until - now);
    while (this.#sources.monotonicUs() < end);
    return this.now();
  }

  #startWorker(): void {
    if (this.#worker !== undefined || this.#closed || this.#sources !== nodeTimeSources) return;
    allowPreciseSleep();
    const fallback = this.#sleeper;
    this.#worker = new WorkerSleeper({
      onWake: () => this.#fireDue(),
      onReady: () => {
        if (this.#worker !== undefined) this.#useSleeper(new HybridSleeper(this.#worker, () => this.#fireDue()));
        this.#workerReady.resolve();
      },
      onDeath: (reason) => {
        if (this.#closed) return;
        this.#useSleeper(fallback);
        this.#workerReady.resolve();
        this.#onDegraded(`the alarm worker ended: ${reason}`);
      },
    });
  }
  #useSleeper(sleeper: Sleeper): void {
    this.#sleeper.sleep();
    this.#sleeper = sleeper;
    this.#fireDue();
  }

  /**
   * Checks the wall clock against the offset. Its next tick but one then gives the exact error, if the alarm for it is
   * in time.
   */
  #reanchor(tick: Alarm): void {
    const bounds = new OffsetBounds();
    bounds.sample(this.#sources);
    if (!bounds.allow(this.#time.target)) return this.#correct(measureOffset(this.#sources, MEASURE_US_MAX));
    const monotonic = this.#sources.monotonicUs();
    const wait = 2_000 - ((monotonic + this.#time.target) % 1_000);
    tick.set((this.now() + Math.floor(wait) - TICK_BEFORE_US) as Instant);
  }
  #watchTick(): void {
    const bounds = new OffsetBounds();
    const start = this.#sources.monotonicUs();
    do bounds.sample(this.#sources);
    while (bounds.width > TICK_WIDTH_US && this.#sources.monotonicUs() - start < TICK_BEFORE_US + TICK_AFTER_US);
    if (bounds.width <= TICK_WIDTH_US) this.#correct(bounds);
    else if (!bounds.allow(this.#time.target)) this.#correct(measureOffset(this.#sources, MEASURE_US_MAX));
    // Otherwise the alarm was late, and nothing contradicts the offset: another tick is tried next time.
  }
  #correct(bounds: OffsetBounds): void {
    const monotonic = this.#sources.monotonicUs();
    // Measuring noise must not make the clocks of two processes wander apart.
    if (!bounds.allow(this.#time.target)) this.#time.correct(monotonic, bounds.middle);
    const error = Math.round(this.#time.errorAt(monotonic));
    if (Math.abs(error) > this.#skewMax) this.#onSkew(error);
  }
}

/**
 * Forbids the kernel to let a sleep run 50 µs over. That takes a permission, and must happen before the thread starts
 * that inherits it.
 */
function allowPreciseSleep(): void {
  try {
    writeFileSync("/proc/self/timerslack_ns", "1");
  } catch {
    // Not on Linux, or not permitted: the lead of the worker covers the 50 µs.
  }
}
