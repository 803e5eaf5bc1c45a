import type { Engine } from "@tutti/ports/engine";
import { type GpuId, type Instant, type Micros, ALWAYS, after, between, later, micros, millis } from "@tutti/units";

/** Differences below this are not worth a message to the ranker. */
const NEWS_US = 250;
/** How long an accelerator that takes no more is not offered again. */
const TURNED_AWAY_FOR = millis(1);

/** One accelerator of this executor: its engine, and when it will be free as far as anybody can tell. */
export class GpuSlot {
  readonly gpu: GpuId;
  readonly engine: Engine;
  /** Accepted batches that have not finished: pulling, queued or running. */
  accepted = 0;
  busyUs = 0;
  batches = 0;
  items = 0;
  failedItems = 0;
  refusedBatches = 0;
  /** Planned time of what is accepted and not finished. */
  #expectedUs = 0;
  #projectedEnd: Instant = ALWAYS;
  /** What the ranker believes: the last end it was told by a grant's answer or by us. */
  #believedEnd: Instant = ALWAYS;
  #lastUse: Instant = ALWAYS;
  /** By a probe. */
  #isOccupied = false;

  constructor(gpu: GpuId, engine: Engine) {
    this.gpu = gpu;
    this.engine = engine;
  }

  get isIdle(): boolean {
    return this.accepted === 0 && !this.#isOccupied;
  }

  /**
   * A run that is overdue is taken to last as long again: one that hangs would otherwise look free, and be granted,
   * with every heartbeat.
   */
  freeAt(now: Instant): Instant {
    if (this.isIdle) return later(now, this.#projectedEnd);
    const overdue = between(this.#projectedEnd, now);
    return overdue > 0 ? after(now, overdue) : later(after(now, 1 as Micros), this.#projectedEnd);
  }

  /** @returns the projected end when the ranker should be told because it differs from the plan */
  accept(startAt: Instant, expectedRun: Micros, now: Instant): Instant | undefined {
    this.#lastUse = now;
    const start = later(later(now, startAt), this.accepted > 0 ? this.#projectedEnd : ALWAYS);
    this.accepted++;
    this.#expectedUs += expectedRun;
    this.#projectedEnd = after(start, expectedRun);
    this.#believedEnd = after(startAt, expectedRun);
    return this.#news();
  }

  /** A batch is done (or came to nothing). @returns the new free time when the ranker should be told */
  finish(expectedRun: Micros, run: Micros, now: Instant): Instant | undefined {
    this.accepted--;
    this.busyUs += run;
    this.#expectedUs -= expectedRun;
    this.#projectedEnd = after(now, this.#expectedUs as Micros);
    return this.#news();
  }

  /** Whether a batch has been accepted since. */
  isUsedSince(instant: Instant): boolean {
    return this.#lastUse >= instant;
  }

  /** A probe run occupies the accelerator without a grant. */
  occupy(until: Instant): void {
    this.#isOccupied = true;
    this.#projectedEnd = later(this.#projectedEnd, until);
    this.#believedEnd = this.#projectedEnd;
  }
  vacate(now: Instant): void {
    this.#isOccupied = false;
    this.#projectedEnd = after(now, this.#expectedUs as Micros);
    this.#believedEnd = this.#projectedEnd;
  }

  /**
   * It takes no batch for a while. No batch is granted within `lead` of when it is said to be free, so a planned run
   * passes before the next grant, or a millisecond where runs take longer: what is overdue may end at any time.
   *
   * @returns when the ranker should take it for free
   */
  turnAway(now: Instant, lead: Micros, expectedRun: Micros): Instant {
    this.#believedEnd = later(
      this.freeAt(now),
      after(after(now, lead), micros(Math.min(expectedRun, TURNED_AWAY_FOR))),
    );
    return this.#believedEnd;
  }

  #news(): Instant | undefined {
    if (Math.abs(this.#projectedEnd - this.#believedEnd) <= NEWS_US) return undefined;
    this.#believedEnd = this.#projectedEnd;
    return this.#projectedEnd;
  }
}
