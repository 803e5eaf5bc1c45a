/**
 * How many requests a second one ModelThread should let in while more come than can be served. docs/algorithms.md, A12.
 *
 * A2 turns what it can't serve into drops, and the loss (drops among all that left the queue) is the signal: above 1 %
 * the rate is lowered to what was really served, below it is raised. So the model serves at least its goodput, since
 * that is the rate at which 1 % is lost. Idle accelerators tell losses of another cause.
 *
 *   CC1. The rate is never below what was dispatched lately, so it can't spiral down; and never below an eighth of the
 *        best of the last seconds, so that it finds back at once after an outage.
 *   CC2. Losses of less than ENTRY_PERIODS periods are no overload unless more comes than was ever served lately: an
 *        executor may have died.
 *   CC3. Each decision rests on losses since the last one, less those of the first period, which the queue still owed
 *        to the rate before. Where most is lost the end of the capacity has been overrun, not found.
 *   CC4. Losses that lowering the rate doesn't end are not of its making (deadlines too short for a busy accelerator),
 *        and are borne.
 *   CC5. While accelerators stand idle, capacity is not what lacks: grants or requests come late. Without losses the
 *        rate rises then by what would fill them, if that is more. To let in less only helps where much comes to
 *        nothing (over LOSS_MAX_IDLE), and after UNFOUND_AFTER such samples in a row the capacity that was found is
 *        none.
 *   CC6. Who has never had anything served knows no rate: a thread that is new while no executor is there must not let
 *        in nothing once there is one.
 *   CC7. While nothing is dispatched, and requests are lost that wait, nobody grants: a new leader is on its way, or an
 *        executor. For OUTAGE_MAX that is no overload, nor is a burst that is lost in part beside idle accelerators a
 *        flood: a takeover in light load would otherwise be followed by refusals for as long as it takes to find the
 *        capacity again.
 *   CC8. Who stood still sees a period of nothing at all though much was coming, period after period, and then all of
 *        it at once and too late. Neither tells of the capacity: the sample begins anew behind them, and what comes too
 *        late begins an overload only if it goes on. Where nobody asks any more it looks the same, so overload ends in
 *        it as ever.
 *   CC9. Accelerators that by their real runs had nothing to do for more than half of the time are not what lacks,
 *        whatever is lost: requests come late, from a host whose processors are short. Refusing then loses what could
 *        be served, and saves that host little.
 */

const ENTRY_PERIODS = 4;
/** So many times the best rate of the last seconds is a flood, and needs no waiting. */
const FLOOD = 1.5;
const ENTRY_LOSS = 0.08;
/** µs, longer than it takes to find a leader that hangs. */
const OUTAGE_MAX = 2_000_000;
const LOSS_MAX = 0.01;
/**
 * CC5: of what is dispatched so much went to accelerators that had nothing to do, and losses up to this are borne then.
 */
const IDLE = 0.85;
const LOSS_MAX_IDLE = 0.3;
const UNFOUND_AFTER = 3;
const UNUSED_PERIODS = 3;
/** What is left after the rate was lowered. */
const LOSS_AIM = 0.005;
/**
 * CC4: so many cuts in a row are tried; then losses up to this much more are borne, and by so much less with each
 * decision.
 */
const CUTS_MAX = 3;
const TOLERANCE_MAX = 0.5;
const TOLERANCE_FADE = 0.05;
/** CC8: what comes in bursts, a period apart and more, is as still between them, and must be decided about. */
const UNBROKEN_MIN = 6;
/** A decision needs so many requests, or so many periods. */
const SAMPLE_MIN = 16;
const PERIODS_MIN = 3;
const PERIODS_MAX = 6;
/** The rate rises fast until losses first show, and up to this part of the best rate of the last seconds. */
const KNOWN = 0.85;
const RISE_FAST = 0.25;
/**
 * CC5: so much of an accelerator's time can be used, and the rate rises by so much at once at most for want of
 * requests.
 */
const FULL = 0.85;
const RISE_IDLE_MAX = 1;
/** Else by so much, and after so many rises in a row by twice as much with each. */
const RISE = 0.0075;
const SMALL_RISES = 3;
/** Overload is over after so many periods in which everything could have been let in. */
const EXIT_PERIODS = 20;
/** Requests a period that are let in whatever was lost: without any nothing could be learnt. */
const LET_IN_MIN = 2;
/** How fast the measured rates of what is dispatched and of what comes follow. */
const FOLLOW = 0.3;
/** The best rate is halved in 5 s. */
const BEST_FADE = 0.993;
const BEST_SHARE = 1 / 8;

/** What happened in a period, in requests. */
export interface Period {
  /** µs. */
  readonly length: number;
  /** All that came, also what was refused before it could queue. */
  readonly offered: number;
  readonly dispatched: number;
  /** Of `dispatched`, onto accelerators that had nothing to do when they were granted. */
  readonly idle: number;
  /** µs for which accelerators had had nothing to do before they got what was dispatched, each at most a period. */
  readonly idleTime: number;
  /** µs that what was dispatched takes them, as planned. */
  readonly runTime: number;
  /** µs that what ended has really taken; 0 where nobody tells. */
  readonly ranTime: number;
  /** By A2 or because the queue was full, of requests that could have been served when they came. */
  readonly dropped: number;
  /** Of `dropped`, when they came: too late. */
  readonly droppedAtOnce: number;
}

export type Departures = Pick<Period, "dispatched" | "dropped">;

export class CapacityControl {
  isOverloaded = false;
  /** Requests per µs to let in; only while overloaded. */
  rate = Infinity;
  /** Dispatched lately, requests per µs. */
  served = 0;
  /**
   * What comes lately while overloaded, requests per µs. Of a slow model a period brings two requests or three: by each
   * alone, a rate that lies between would stay too low for one and be cut down to the other, for good.
   */
  #offered = 0;
  #best = 0;
  #streak = 0;
  /** µs for which nothing was dispatched though requests were lost. */
  #outFor = 0;
  /** CC8: nothing happens, though much was coming. */
  #standsStill = false;
  /** Periods in a row in which anything happened. */
  #unbroken = 0;
  #periods = 0;
  #rises = 0;
  #cuts = 0;
  /** CC5, of this sample so far. */
  #dispatched = 0;
  #idle = 0;
  #idleTime = 0;
  #runTime = 0;
  /** CC5: samples in a row beside idle accelerators. */
  #idleFor = 0;
  /** CC9: periods in a row. */
  #unusedFor = 0;
  #tolerance = LOSS_MAX;
  #settled = 0;
  /** Whether losses have shown since overload began where the capacity ends. */
  #isFound = false;

  /** Accelerators, for some samples: what is lost isn't lost for want of them. CC5. */
  get haveStoodIdle(): boolean {
    return this.#idleFor >= UNFOUND_AFTER;
  }

  /** CC8: so it was in the last period. */
  get standsStill(): boolean {
    return this.#standsStill;
  }

  /**
   * @param since - what left the queue since the sample was begun
   * @returns whether to begin a new sample
   */
  end(period: Period, since: () => Departures): "same sample" | "new sample" {
    const { length, offered, dispatched, dropped } = period;
    const isEmpty = offered + dispatched + dropped === 0;
    const isSudden = this.#unbroken >= UNBROKEN_MIN && this.#offered * length >= SAMPLE_MIN;
    this.#standsStill = isEmpty && this.isOverloaded && (this.#standsStill || isSudden);
    this.#unbroken = isEmpty ? 0 : this.#unbroken + 1;
    if (!this.#standsStill) this.served += FOLLOW * (dispatched / length - this.served);
    const begins = this.isOverloaded ? this.#steer(period, since) : this.#watch(period);
    this.#best = Math.max(this.served, this.#best * BEST_FADE);
    return begins ? "new sample" : "same sample";
  }

  /** As `end`, for a period of calm in which nothing was dropped; one as long as several. */
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
    this.isOverloaded = true;
    this.#idleFor = areIdle ? UNFOUND_AFTER : 0;
    // Who was nearly idle is served more than the mean of the last periods says.
    this.rate = this.#atLeast(Math.max(this.served, dispatched / length) / (1 - LOSS_AIM), length);
    this.#offered = offered / length;
    this.#periods = 0;
    this.#rises = 0;
    this.#cuts = 0;
    this.#tolerance = LOSS_MAX;
    this.#settled = 0;
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
      this.isOverloaded = false;
      this.rate = Infinity;
      this.#standsStill = false;
      this.#streak = this.#unusedFor = 0;
      return true;
    }
    if (this.#standsStill) this.#periods = 0;
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
    // What nobody asks for can't be tried: from far above, the rate would have a long way down. It keeps the best of
    // the last seconds, for a flood that only pauses.
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
    // One standard deviation less: of a few requests one may be lost by chance.
    const isLoss = dropped - Math.sqrt(dropped) > lossMax * all;
    if (!isLoss) {
      this.rate *= 1 + this.#rise(areIdle && dropped <= this.#tolerance * all);
      this.#cuts = 0;
      return;
    }
    this.#rises = 0;
    if (!areIdle && dispatched > dropped) this.#isFound = true;
    // CC4
    if (++this.#cuts > CUTS_MAX) this.#tolerance = Math.min(TOLERANCE_MAX, (1.5 * dropped) / all);
    else this.rate = this.#atLeast((this.rate * dispatched) / all / (1 - LOSS_AIM), length);
  }

  /** @param isUnused - whether accelerators stand idle, and nothing is lost beside them */
  #rise(isUnused: boolean): number {
    const isFar = !this.#isFound || this.rate < KNOWN * this.#best;
    const doubled = RISE * 2 ** Math.max(0, ++this.#rises - SMALL_RISES);
    const rise = isFar ? RISE_FAST : Math.min(RISE_FAST, doubled);
    return isUnused ? Math.max(rise, Math.min(RISE_IDLE_MAX, this.#unused)) : rise;
  }

  /** CC5: what would fill the accelerators besides, as a part of what they have. */
  get #unused(): number {
    return FULL * (1 + this.#idleTime / Math.max(1, this.#runTime)) - 1;
  }

  /** CC1. */
  #atLeast(rate: number, length: number): number {
    return Math.max(rate, this.served, this.#best * BEST_SHARE, LET_IN_MIN / length);
  }
}

/** CC9. */
const isUnused = (ranTime: number, idleTime: number): boolean => ranTime > 0 && ranTime < idleTime;

/** CC5. */
const isIdle = (idle: number, dispatched: number): boolean => idle > IDLE * dispatched;
