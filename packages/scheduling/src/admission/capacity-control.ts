/**
 * The rate at which one ModelThread admits requests while more come than can be served. docs/algorithms.md, A12.
 *
 * A2 drops the requests that it can't serve, and the signal is the loss (drops among all that left the queue). Above 1
 * %, the rate is lowered to the rate really served; below, it is raised. So the model serves at least its goodput,
 * which is the rate at which 1 % is lost. Idle accelerators reveal losses of another cause.
 *
 *   CC1. The rate is never below the rate dispatched lately, so it can't spiral down, nor below LET_IN_MIN.
 *   CC2. Losses of less than ENTRY_PERIODS periods are no overload unless more comes than was ever served lately: an
 *        executor may have died.
 *   CC3. Each decision rests on losses since the last one, less those of the first period, which result from the rate
 *        before. If most requests are lost, the capacity has been overrun, not found.
 *   CC4. Losses that lowering the rate doesn't end have another cause (deadlines too short for a busy accelerator,
 *        lengths that aren't known yet), and are tolerated.
 *   CC5. While accelerators are idle, capacity isn't lacking: grants or requests come late. Without losses, the rate
 *        then rises by as much as would fill them, if that is more. Admitting less helps only where much is lost (over
 *        LOSS_MAX_IDLE). After UNFOUND_AFTER such samples in a row, the capacity that was found no longer counts.
 *   CC6. A thread that never had anything served knows no rate. A new thread without an executor must not end up with a
 *        rate of zero once there is one.
 *   CC7. While nothing is dispatched and waiting requests are lost, nothing is granted: a new leader or executor is on
 *        its way. For OUTAGE_MAX that is no overload. Nor is a burst a flood if it is lost in part beside idle
 *        accelerators. Otherwise a takeover in light load would cause refusals until the capacity is found again.
 *   CC8. After a process stall, periods are empty although much was arriving, and then everything arrives at once and
 *        too late. Neither tells the capacity: the sample starts again after them, and late arrivals begin an overload
 *        only if they go on. It looks the same when nobody sends any more, so overload then ends as usual.
 *   CC9. Accelerators whose real runs left them idle for more than half of the time are not the bottleneck, whatever is
 *        lost: requests come late, from a host that is short of processors. Refusing then loses requests that could be
 *        served, and saves that host little.
 */

const ENTRY_PERIODS = 4;
/** Multiple of the best rate of the last seconds that is a flood, and starts overload at once. */
const FLOOD = 1.5;
const ENTRY_LOSS = 0.08;
/** Longest outage that is no overload (CC7), µs: longer than it takes to detect a leader that hangs. */
const OUTAGE_MAX = 2_000_000;
const LOSS_MAX = 0.01;
/**
 * CC5: accelerators count as idle if more than this fraction of dispatches went to accelerators that had nothing to do.
 * Losses up to LOSS_MAX_IDLE are then tolerated.
 */
const IDLE = 0.85;
const LOSS_MAX_IDLE = 0.3;
const UNFOUND_AFTER = 3;
const UNUSED_PERIODS = 3;
/**
 * CC4: number of cuts in a row that are tried. Then losses up to TOLERANCE_MAX are tolerated, by TOLERANCE_FADE less
 * with each decision.
 */
const CUTS_MAX = 3;
const TOLERANCE_MAX = 0.5;
const TOLERANCE_FADE = 0.05;
/**
 * CC8: periods with events in a row before a pause counts as a stall. Traffic in bursts, a period apart or more, also
 * pauses, and decisions must go on for it.
 */
const UNBROKEN_MIN = 6;
/** A decision needs this many requests, or this many periods. */
const SAMPLE_MIN = 16;
const PERIODS_MIN = 3;
const PERIODS_MAX = 6;
/** The rate rises fast until losses first show, and up to this fraction of recent seconds' best rate; then slowly. */
const KNOWN = 0.95;
const RISE_FAST = 0.25;
const RISE = 0.01;
/** CC5: usable fraction of an accelerator's time, and the largest single rise of the rate for lack of requests. */
const FULL = 0.85;
const RISE_IDLE_MAX = 1;
/** Number of periods in which everything could have been admitted, after which overload is over. */
const EXIT_PERIODS = 20;
/** Requests a period that are admitted whatever was lost: without any, nothing could be learnt. */
const LET_IN_MIN = 2;
/** Smoothing of the measured rates of dispatches and arrivals. */
const FOLLOW = 0.3;
/** Fading of the best rate: it is halved in 5 s. */
const BEST_FADE = 0.993;

/** Counts of one period, in requests. */
export interface Period {
  /** Length, µs. */
  readonly length: number;
  /** All arrivals, including requests that were refused before they could queue. */
  readonly offered: number;
  readonly dispatched: number;
  /** Part of `dispatched` that went to accelerators that were idle when they were granted. */
  readonly idle: number;
  /** µs for which accelerators had been idle before these dispatches, each at most a period. */
  readonly idleTime: number;
  /** µs that the dispatched batches take, as planned. */
  readonly runTime: number;
  /** µs that the batches which ended really took; 0 if nobody reports it. */
  readonly ranTime: number;
  /** Requests dropped by A2 or because the queue was full, which could have been served when they came. */
  readonly dropped: number;
  /** Part of `dropped` that was dropped on arrival, because it came too late. */
  readonly droppedAtOnce: number;
}

export type Departures = Pick<Period, "dispatched" | "dropped">;

/** `stalled`: overloaded, and nothing happens although much was arriving (CC8). */
export type OverloadState = "normal" | "overloaded" | "stalled";

export class CapacityControl {
  state: OverloadState = "normal";
  /** Requests per µs to admit; Infinity while normal. */
  rate = Infinity;
  /** Recent dispatches, requests per µs. */
  served = 0;
  /**
   * Recent arrivals while overloaded, requests per µs. A slow model has two or three requests a period. If each period
   * were taken by itself, a rate between would stay too low for one, and be cut to the other for good.
   */
  #offered = 0;
  #best = 0;
  #streak = 0;
  /** Time for which nothing was dispatched although requests were lost, µs. */
  #outFor = 0;
  /** Periods in a row in which anything happened. */
  #unbroken = 0;
  #periods = 0;
  /** CC5: sums of this sample so far. */
  #dispatched = 0;
  #idle = 0;
  #idleTime = 0;
  #runTime = 0;
  /** CC5: samples in a row with idle accelerators. */
  #idleFor = 0;
  /** CC9: periods in a row with unused accelerators. */
  #unusedFor = 0;
  #settled = 0;
  #cuts = 0;
  #tolerance = LOSS_MAX;
  /** True once losses have shown, since overload began, where the capacity ends. */
  #isFound = false;

  /** True if accelerators have been idle for some samples: losses then have another cause (CC5). */
  get haveStoodIdle(): boolean {
    return this.#idleFor >= UNFOUND_AFTER;
  }

  /**
   * @param since - returns what left the queue since the sample was begun
   * @returns whether to begin a new sample
   */
  end(period: Period, since: () => Departures): "same sample" | "new sample" {
    const { length, offered, dispatched, dropped } = period;
    const isEmpty = offered + dispatched + dropped === 0;
    const isSudden = this.#unbroken >= UNBROKEN_MIN && this.#offered * length >= SAMPLE_MIN;
    if (this.state !== "normal")
      this.state = isEmpty && (this.state === "stalled" || isSudden) ? "stalled" : "overloaded";
    this.#unbroken = isEmpty ? 0 : this.#unbroken + 1;
    if (this.state !== "stalled") this.served += FOLLOW * (dispatched / length - this.served);
    const begins = this.state === "normal" ? this.#watch(period) : this.#steer(period, since);
    this.#best = Math.max(this.served, this.#best * BEST_FADE);
    return begins ? "new sample" : "same sample";
  }

  /** As `end`, for a calm period in which nothing was dropped, and which is as long as several. */
  calm(length: number, dispatched: number, periods: number): void {
    this.served += Math.min(1, FOLLOW * periods) * (dispatched / length - this.served);
    this.#best = Math.max(this.served, this.#best * (1 - periods * (1 - BEST_FADE)));
    this.#unbroken = dispatched > 0 ? this.#unbroken + periods : 0;
    if (dispatched > 0) this.#streak = this.#outFor = 0;
  }

  #watch(period: Period): boolean {
    const { length, offered, dispatched, idle, idleTime, ranTime, dropped, droppedAtOnce } = period;
    if (dispatched + dropped === 0) return false; // a slow model: no news
    if (this.#best === 0 && this.served === 0) return false; // CC6
    if (isUnused(ranTime, idleTime)) {
      this.#streak = 0;
      return false; // CC9
    }
    // CC8
    const areLate = dropped > 0 && 2 * droppedAtOnce >= dropped;
    const isOut = dispatched === 0 && !areLate;
    this.#outFor = isOut ? this.#outFor + length : 0;
    if (isOut && this.#outFor <= OUTAGE_MAX) return false; // CC7
    const areIdle = isIdle(idle, dispatched);
    const lossMax = areIdle ? LOSS_MAX_IDLE : ENTRY_LOSS;
    this.#streak = dropped > lossMax * (dispatched + dropped) ? this.#streak + 1 : 0;
    const isFlood =
      !areIdle && !areLate && this.#best > 0 && offered > FLOOD * this.#best * length && dropped >= SAMPLE_MIN;
    if (this.#streak < (isFlood ? 1 : ENTRY_PERIODS)) return false;
    this.state = "overloaded";
    this.#idleFor = areIdle ? UNFOUND_AFTER : 0;
    // A model that was nearly idle now serves more than the mean of the last periods says.
    this.rate = this.#atLeast(dispatched / length, length);
    this.#offered = offered / length;
    this.#periods = 0;
    this.#settled = 0;
    this.#cuts = 0;
    this.#tolerance = LOSS_MAX;
    this.#isFound = false;
    return true;
  }

  #steer(period: Period, since: () => Departures): boolean {
    const { length, offered } = period;
    this.#offered += FOLLOW * (offered / length - this.#offered);
    const isEnough = this.#offered <= this.rate;
    this.#settled = isEnough ? this.#settled + 1 : 0;
    this.#unusedFor = isUnused(period.ranTime, period.idleTime) ? this.#unusedFor + 1 : 0;
    if (this.#settled >= EXIT_PERIODS || this.#unusedFor >= UNUSED_PERIODS) {
      this.state = "normal";
      this.rate = Infinity;
      this.#streak = this.#unusedFor = 0;
      return true;
    }
    if (this.state === "stalled") this.#periods = 0;
    else this.#periods++;
    if (this.#periods <= 1) {
      this.#dispatched = this.#idle = this.#idleTime = this.#runTime = 0;
      return true; // CC3, CC8
    }
    this.#dispatched += period.dispatched;
    this.#idle += period.idle;
    this.#idleTime += period.idleTime;
    this.#runTime += period.runTime;
    const { dispatched, dropped } = since();
    const all = dispatched + dropped;
    if (this.#periods < PERIODS_MIN || (all < SAMPLE_MIN && this.#periods < PERIODS_MAX)) return false;
    this.#periods = 0;
    this.#decide({ dispatched, dropped }, length);
    // A rate that nobody asks for can't be tried: from far above, it would take long to fall. But keep the best of the
    // last seconds, for a flood that only pauses.
    if (isEnough) this.rate = Math.min(this.rate, this.#atLeast(Math.max(2 * this.#offered, this.#best), length));
    return true;
  }

  #decide({ dispatched, dropped }: Departures, length: number): void {
    const all = dispatched + dropped;
    this.#tolerance += TOLERANCE_FADE * (LOSS_MAX - this.#tolerance);
    const areIdle = isIdle(this.#idle, this.#dispatched);
    this.#idleFor = areIdle ? this.#idleFor + 1 : 0;
    if (this.haveStoodIdle) this.#isFound = false;
    const lossMax = areIdle ? Math.max(LOSS_MAX_IDLE, this.#tolerance) : this.#tolerance;
    // Subtract one standard deviation: one of a few requests may be lost by chance.
    const isLoss = dropped - Math.sqrt(dropped) > lossMax * all;
    if (!isLoss) {
      this.rate *= 1 + this.#rise(areIdle && dropped <= this.#tolerance * all);
      this.#cuts = 0;
      return;
    }
    if (!areIdle && dispatched > dropped) this.#isFound = true;
    if (++this.#cuts > CUTS_MAX) this.#tolerance = Math.min(TOLERANCE_MAX, (1.5 * dropped) / all);
    else this.rate = this.#atLeast((this.rate * dispatched) / all, length);
  }

  /** @param isUnused - true if accelerators are idle, and nothing is lost beside them */
  #rise(isUnused: boolean): number {
    const known = (KNOWN * this.#best) / this.rate - 1;
    const rise = this.#isFound ? Math.max(RISE, Math.min(RISE_FAST, known)) : RISE_FAST;
    return isUnused ? Math.max(rise, Math.min(RISE_IDLE_MAX, this.#unused)) : rise;
  }

  /** CC5: load that would fill the accelerators further, as a fraction of their present load. */
  get #unused(): number {
    return FULL * (1 + this.#idleTime / Math.max(1, this.#runTime)) - 1;
  }

  /** The least rate (CC1). */
  #atLeast(rate: number, length: number): number {
    return Math.max(rate, this.served, LET_IN_MIN / length);
  }
}

/** True if accelerators were idle for longer than they ran (CC9). */
const isUnused = (ranTime: number, idleTime: number): boolean => ranTime > 0 && ranTime < idleTime;

/** True if most dispatches went to idle accelerators (CC5). */
const isIdle = (idle: number, dispatched: number): boolean => idle > IDLE * dispatched;
