/**
 * When a ModelThread is overloaded, and how many requests a second it then admits. docs/algorithms.md, A12.
 *
 * The capacity is measured in accelerator time: the time that the accelerators granted to the model had (what they ran,
 * and what they stood idle before), over the time that one of its requests takes in a target batch. So it doesn't
 * depend on how many are admitted. Counted in requests that are served it would prove itself right: with few admitted,
 * batches stay small, and few can be served.
 *
 *   CAP-1. Overload is a demand above the capacity, while a good part of the requests is lost and accelerators run for
 *          longer than they stand idle. What is lost otherwise has other causes: a process that stood still, cold code,
 *          a takeover, a dead executor, deadlines too short for a busy accelerator. Refusing requests mends none.
 *   CAP-2. Periods in which nothing is dispatched say nothing about the capacity: nobody grants. Without any dispatch
 *          it isn't known, and nothing is overload.
 *   CAP-3. The limit is the capacity times a factor. It rises while next to nothing is lost: models that share
 *          accelerators get more of them by asking for more. It falls below 1 only where much is lost and not even half
 *          of the limit is served: processors are then lacking instead of accelerators.
 *   CAP-4. After a process stall, periods are empty although much was arriving, and then everything arrives at once and
 *          too late: that is no flood. It looks the same when nobody sends any more, so overload then ends as usual.
 */

/** Share of what leaves the queue whose loss is a sign of overload. */
const LOSS = 0.08;
/**
 * Periods in a row that make an overload. One is enough where FLOOD times the best capacity of the last seconds
 * arrives: for a moment others may take most of the accelerators.
 */
const ENTRY_PERIODS = 4;
const FLOOD = 1.5;
/** Fading of the best capacity: it is halved in 5 s. */
const BEST_FADE = 0.993;
/**
 * Time without a dispatch, µs, that counts as the accelerators' besides that of the next runs; longer ones are outages.
 */
const UNSEEN_MOST = 2_000_000;
/** Number of periods in which everything could have been admitted, after which overload is over. */
const EXIT_PERIODS = 20;
/** Smoothing from period to period. */
const FOLLOW = 0.3;
/**
 * Idle time beside runs, as a fraction of them, from which on there may be more accelerators that nobody asked for.
 * What is seen then is the least that there is, and only counts where it is more than was known, by half at once.
 */
const UNASKED = 0.05;
const RISE_UNASKED = 0.5;
/**
 * CAP-3: periods of a sample; losses up to which the factor rises and from which it is halved; its first rise, which
 * doubles with each sample in a row, its largest, and the bound of the factor.
 */
const SAMPLE = 3;
const LOSS_LEAST = 0.01;
const LOSS_MOST = 0.3;
const RISE = 0.05;
const RISE_MOST = 0.25;
const FACTOR_MOST = 4;
const FACTOR_LEAST = 1 / 16;
/** Requests a period that are admitted whatever was lost: without any, nothing could be learnt. */
const LET_IN_MIN = 2;
/** Periods with events in a row before a pause counts as a stall. */
const UNBROKEN_MIN = 6;
/** Requests that are no chance any more where they are lost, or missing, in one period. */
const MANY = 16;

/** Counts of one period, in requests. */
export interface Period {
  /** Length, µs. */
  readonly length: number;
  /** All arrivals, including requests that were refused before they could queue. */
  readonly offered: number;
  readonly dispatched: number;
  /** µs that accelerators take for these dispatches, and for which they had been idle before, at most a period each. */
  readonly run: number;
  readonly idle: number;
  /** µs that the dispatched requests take in target batches. */
  readonly work: number;
  /** Requests dropped by A2 or because the queue was full, which could have been served when they came. */
  readonly dropped: number;
  /** Part of `dropped` that was dropped on arrival, because it came too late. */
  readonly droppedAtOnce: number;
}

/** `stalled`: overloaded, and nothing happens although much was arriving (CAP-4). */
export type OverloadState = "normal" | "overloaded" | "stalled";

export class CapacityControl {
  state: OverloadState = "normal";
  /** Accelerators that the model has, and µs of one that a request takes; 0 while unknown (CAP-2). */
  accelerators = 0;
  #each = 0;
  /** Requests per µs that arrive, those included that were refused before they could queue. */
  offered = 0;
  /** Time since the last dispatch, µs, and periods with dispatches so far. */
  #unseen = 0;
  #learnt = 0;
  /** The best capacity lately, requests per µs. */
  #best = 0;
  #least = 0;
  /** Periods in a row that look like overload, that could have admitted everything, and in which anything happened. */
  #streak = 0;
  #settled = 0;
  #unbroken = 0;
  /** CAP-3. */
  #factor = 1;
  #rise = RISE;
  #sample = { periods: 0, dispatched: 0, dropped: 0 };

  /** Requests per µs that accelerators could serve; Infinity while unknown. */
  get capacity(): number {
    return this.#each === 0 ? Infinity : this.accelerators / this.#each;
  }
  /** Requests per µs to admit; Infinity while normal. */
  get rate(): number {
    return this.state === "normal" ? Infinity : Math.max(this.#factor * this.capacity, this.#least);
  }

  end(period: Period): void {
    const { length, offered, dispatched, dropped } = period;
    const isEmpty = offered + dispatched + dropped === 0;
    const isSudden = this.#unbroken >= UNBROKEN_MIN && this.offered * length >= MANY;
    if (this.state !== "normal")
      this.state = isEmpty && (this.state === "stalled" || isSudden) ? "stalled" : "overloaded";
    this.#unbroken = isEmpty ? 0 : this.#unbroken + 1;
    if (this.state === "normal")
      this.#watch(period); // by the capacity before it
    else this.#steer(period);
    this.#learn(period, FOLLOW);
  }

  /** As `end`, for a calm period in which nothing was dropped, and which is as long as several. */
  calm(period: Period, periods: number): void {
    this.#unbroken = period.dispatched > 0 ? this.#unbroken + periods : 0;
    if (period.dispatched > 0) this.#streak = 0;
    this.#learn(period, Math.min(1, FOLLOW * periods));
  }

  #learn({ length, offered, dispatched, run, idle, work }: Period, follow: number): void {
    this.offered += follow * (offered / length - this.offered);
    if (dispatched === 0) {
      this.#unseen += length; // CAP-2
      return;
    }
    // A run may be longer than a period, and others may have the accelerator meanwhile.
    const seen = length + Math.min(this.#unseen, run + UNSEEN_MOST);
    this.#unseen = 0;
    const accelerators = (run + idle) / seen;
    const areAll = idle < UNASKED * run;
    const part = areAll ? follow : accelerators > this.accelerators ? Math.max(follow, RISE_UNASKED) : 0;
    if (this.accelerators === 0) this.accelerators = accelerators;
    else this.accelerators += part * (accelerators - this.accelerators);
    this.#learnt++;
    const each = work / dispatched;
    this.#each = this.#each === 0 ? each : this.#each + follow * (each - this.#each);
    this.#best = Math.max(this.capacity, this.#best * BEST_FADE ** Math.max(1, follow / FOLLOW));
  }

  #watch({ length, offered, dispatched, run, idle, dropped, droppedAtOnce }: Period): void {
    if (dispatched + dropped === 0) return; // a slow model: no news
    const areLate = 2 * droppedAtOnce >= dropped;
    if (dispatched === 0 && !areLate) return; // CAP-2: nobody grants
    const demand = offered / (length * this.capacity);
    const isLoss = dropped > LOSS * (dispatched + dropped) && demand > 1 && run >= idle; // CAP-1
    this.#streak = isLoss ? this.#streak + 1 : 0;
    const isKnown = this.#learnt >= ENTRY_PERIODS;
    const isFlood = isKnown && offered > FLOOD * this.#best * length && dropped >= MANY && !areLate; // CAP-4
    if (this.#streak < (isFlood ? 1 : ENTRY_PERIODS)) return;
    this.state = "overloaded";
    this.offered = offered / length;
    this.#settled = 0;
    this.#factor = 1;
    this.#rise = RISE;
    this.#least = LET_IN_MIN / length;
    this.#sample = { periods: 0, dispatched: 0, dropped: 0 };
  }

  #steer({ length, dispatched, dropped, droppedAtOnce }: Period): void {
    this.#settled = this.offered <= this.rate ? this.#settled + 1 : 0;
    if (this.#settled >= EXIT_PERIODS) {
      this.state = "normal";
      this.#streak = 0;
      return;
    }
    if (dispatched === 0 && 2 * droppedAtOnce < dropped) return; // CAP-2
    const isLimiting = this.#settled === 0 && this.state === "overloaded";
    const sample = this.#sample;
    if (isLimiting && sample.periods++ > 0) {
      sample.dispatched += dispatched;
      sample.dropped += dropped;
      if (sample.periods > SAMPLE) this.#adjust(sample, SAMPLE * length);
      else return;
    } else if (isLimiting) return; // what is lost in its first period results from the rate before
    this.#sample = { periods: 0, dispatched: 0, dropped: 0 };
  }

  /** @param length - of the sample, µs */
  #adjust({ dispatched, dropped }: { dispatched: number; dropped: number }, length: number): void {
    // Less one standard deviation: one of a few requests may be lost by chance.
    const loss = (dropped - Math.sqrt(dropped)) / Math.max(1, dispatched + dropped);
    if (loss > LOSS_MOST && dispatched < (this.rate * length) / 2)
      this.#factor = Math.max(FACTOR_LEAST, this.#factor / 2);
    else if (this.#factor < 1) this.#factor = Math.min(1, this.#factor * (1 + RISE_MOST));
    else if (loss > LOSS_LEAST) {
      this.#factor = Math.max(1, this.#factor * (1 - loss));
      this.#rise = RISE;
    } else {
      this.#factor = Math.min(FACTOR_MOST, this.#factor * (1 + this.#rise));
      this.#rise = Math.min(RISE_MOST, 2 * this.#rise);
    }
  }
}
