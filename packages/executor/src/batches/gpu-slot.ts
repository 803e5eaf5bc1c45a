import type { Engine } from "@tutti/ports/engine";
import type { BatchDispatched } from "@tutti/protocol";
import {
  type GpuId,
  type Instant,
  type Micros,
  ALWAYS,
  after,
  between,
  isJobThread,
  later,
  micros,
  millis,
} from "@tutti/units";

/** Differences below this are not worth a message to the ranker. */
const NEWS_US = 250;
/** How long an accelerator that refused a batch is not offered again. */
const TURNED_AWAY_FOR = millis(1);

/** The plan of a batch. */
type PlannedRun = Pick<BatchDispatched, "startAt" | "expectedRun" | "thread">;

/** One accelerator of this executor: its engine, and the estimate of when it will be free. */
export class GpuSlot {
  readonly gpu: GpuId;
  readonly engine: Engine;
  /** Accepted batches that have not finished: pulling, queued or running. */
  accepted = 0;
  /** Those of them that are of jobs. */
  #acceptedJobs = 0;
  busyUs = 0;
  /** The part of it that was for jobs. */
  jobsUs = 0;
  batches = 0;
  items = 0;
  failedItems = 0;
  refusedBatches = 0;
  /** Planned time of the accepted and unfinished batches. */
  #expectedUs = 0;
  #projectedEnd: Instant = ALWAYS;
  /** Free time that the ranker believes: the last end reported by a grant's answer or by us. */
  #believedEnd: Instant = ALWAYS;
  #lastUse: Instant = ALWAYS;
  /** Whether a probe or an isolated run occupies the accelerator. */
  #isOccupied = false;

  constructor(gpu: GpuId, engine: Engine) {
    this.gpu = gpu;
    this.engine = engine;
  }

  get isIdle(): boolean {
    return this.accepted === 0 && !this.#isOccupied;
  }

  /** Whether no request has it: jobs leave it to requests. */
  get isIdleForRequests(): boolean {
    return this.accepted === this.#acceptedJobs && !this.#isOccupied;
  }

  /**
   * When the accelerator will be free. An overdue run is assumed to last as long again: a hanging one would otherwise
   * look free, and be granted, with every heartbeat.
   */
  freeAt(now: Instant): Instant {
    if (this.isIdle) return later(now, this.#projectedEnd);
    const overdue = between(this.#projectedEnd, now);
    return overdue > 0 ? after(now, overdue) : later(after(now, 1 as Micros), this.#projectedEnd);
  }

  /** @returns the projected end if it differs from the plan, so that the ranker should hear of it */
  accept({ startAt, expectedRun, thread }: PlannedRun, now: Instant): Instant | undefined {
    this.#lastUse = now;
    const start = later(later(now, startAt), this.accepted > 0 ? this.#projectedEnd : ALWAYS);
    this.accepted++;
    if (isJobThread(thread)) this.#acceptedJobs++;
    this.#expectedUs += expectedRun;
    this.#projectedEnd = after(start, expectedRun);
    this.#believedEnd = after(startAt, expectedRun);
    return this.#news();
  }

  /**
   * Ends a batch that is done or did not run. The next batches' inputs count as there, though some may be on their way:
   * a free time that waits for them makes the next grant late by as much, and the accelerator idle again.
   *
   * @returns the new free time if the ranker should hear of it
   */
  finish({ expectedRun, thread }: PlannedRun, run: Micros, now: Instant): Instant | undefined {
    this.accepted--;
    this.busyUs += run;
    if (isJobThread(thread)) {
      this.#acceptedJobs--;
      this.jobsUs += run;
    }
    this.#expectedUs -= expectedRun;
    this.#projectedEnd = after(now, this.#expectedUs as Micros);
    return this.#news();
  }

  /** Whether a batch has been accepted since. */
  isUsedSince(instant: Instant): boolean {
    return this.#lastUse >= instant;
  }

  /** A probe or an isolated run occupies the accelerator without a grant. */
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
   * Takes no batch for a while. The ranker grants at most `lead` before the reported free time, so a planned run passes
   * before the next grant, or a millisecond if runs take longer: an overdue run may end at any time.
   *
   * @returns when the ranker should take the accelerator for free
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
