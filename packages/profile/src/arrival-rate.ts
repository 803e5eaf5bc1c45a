/**
 * The measured arrival rate λ of a model and how it varies: counts over a 5 s window of 50 ms slots. After a pause or a
 * step the window would know the rate only seconds later, so the last slots count alone where they are surely more.
 * docs/algorithms.md, A6.
 */
import type { Instant } from "@tutti/units";

const SLOT = 50_000;
const SLOTS = 100;
/** Least span of a rate: in a shorter one, two requests that happen to come together would look like a flood. */
const SPAN_MIN = 250_000;
/** Fewest slots of a variance. */
const SLOTS_MIN = 10;
/**
 * Slots of which the latest are looked at, and standard deviations by which a count of them may be too high by chance.
 */
const RECENT_SLOTS = 5;
const CHANCE = 3;
/** Number of differences of which one may be a step of the rate, not noise: 4 of a whole window. */
const PAIRS_OF_STEPS = 20;

export class ArrivalRate {
  readonly #counts = new Float64Array(SLOTS);
  /** Number of the current slot since the epoch; −1 before the first arrival. */
  #slot = -1;
  #slotEnd = -Infinity;
  /**
   * Arrivals in the current slot. They are not in `#counts` nor `#total` until it is over, so that an arrival touches
   * little memory.
   */
  #current = 0;
  #total = 0;
  /** The rate that the last slots make sure of. */
  #recent = 0;
  #since = 0;
  #begunAt = Infinity;
  /** The largest squares of differences, for `dispersion`. */
  readonly #largest = new Float64Array(Math.floor(SLOTS / PAIRS_OF_STEPS) + 1);

  /** Counts one arrival. Moments must not go back. */
  note(at: Instant): void {
    if (at >= this.#slotEnd) this.#advance(at);
    this.#current++;
  }

  /** Requests per µs, over the last 5 s or since the first arrival, or of late; 0 before it. */
  perMicro(at: Instant): number {
    if (this.#slot < 0) return 0;
    if (at >= this.#slotEnd) this.#advance(at);
    const windowStart = Math.max((this.#slot - SLOTS + 1) * SLOT, this.#since);
    return Math.max(this.#recent, (this.#total + this.#current) / Math.max(at - windowStart, SPAN_MIN));
  }

  /**
   * As perMicro, without the slot that is not over: it changes once a slot, however often it is read. 0 in the first
   * one.
   */
  perMicroOfSlots(at: Instant): number {
    if (this.#slot < 0) return 0;
    if (at >= this.#slotEnd) this.#advance(at);
    const windowStart = Math.max((this.#slot - SLOTS + 1) * SLOT, this.#since);
    return Math.max(this.#recent, this.#total / Math.max(this.#slot * SLOT - windowStart, SPAN_MIN));
  }

  /**
   * From here on arrivals would be noted, so silence before the first one counts as known. Rates are still counted from
   * that arrival on.
   */
  begin(at: Instant): void {
    this.#begunAt = at;
  }

  /**
   * Whether perMicroOfSlots covers as long a time as a rate takes: the whole slots since the first arrival, or, before
   * there are any, the silence before it.
   */
  isKnown(at: Instant): boolean {
    if (this.#slot >= 0 && at >= this.#slotEnd) this.#advance(at);
    const whole = this.#slot < 0 ? 0 : this.#slot * SLOT - this.#since;
    if (whole > 0) return whole >= SPAN_MIN;
    return (this.#slot < 0 ? at : this.#since) - this.#begunAt >= SPAN_MIN;
  }

  /**
   * Index of dispersion of the counts: 1 for Poisson arrivals, 0 for even ones, some 10 for Gamma gaps of shape 0.1.
   * The variance is taken from successive differences (von Neumann), so that a rate that rises does not pass for
   * bursts. A pause does not either: its ends are differences as large as all that comes in a slot, four at most as
   * each may fall within one. So the largest of those after which the counts stay, one in PAIRS_OF_STEPS, count as the
   * next of them. NaN before anything is known.
   */
  dispersion(at: Instant): number {
    if (this.#slot < 0) return NaN;
    if (at >= this.#slotEnd) this.#advance(at);
    // The current slot is not over, and the first one began in the middle.
    const first = Math.max(this.#slot - SLOTS + 1, Math.floor(this.#since / SLOT) + 1);
    const pairs = this.#slot - 1 - first;
    const steps = Math.max(0, Math.floor(pairs / PAIRS_OF_STEPS));
    const largest = this.#largest.fill(0);
    let [sum, squares] = [0, 0];
    for (let slot = first; slot < this.#slot; slot++) {
      const count = this.#counts[slot % SLOTS]!;
      sum += count;
      if (slot === first) continue;
      const square = (count - this.#counts[(slot - 1) % SLOTS]!) ** 2;
      squares += square;
      if (square > largest[steps]! && this.#isLasting(slot, first)) insert(largest, steps, square);
    }
    for (let i = 0; i < steps; i++) squares -= largest[i]! - largest[steps]!;
    return pairs < SLOTS_MIN || sum === 0 ? NaN : squares / (2 * pairs) / (sum / (pairs + 1));
  }

  /** Whether the counts stay after the start of this slot, and did before it: as a burst's don't, for two slots. */
  #isLasting(slot: number, first: number): boolean {
    const [before, after] = [this.#counts[(slot - 1) % SLOTS]!, this.#counts[slot % SLOTS]!];
    for (let other = Math.max(first, slot - 3); other < Math.min(slot + 3, this.#slot); other++) {
      const count = this.#counts[other % SLOTS]!;
      const [near, far] = other < slot ? [before, after] : [after, before];
      if (Math.abs(count - near) > Math.abs(count - far)) return false;
    }
    return true;
  }

  #advance(at: Instant): void {
    const slot = Math.floor(at / SLOT);
    if (this.#slot >= 0) this.#endSlot();
    if (this.#slot < 0) this.#since = at;
    else if (slot - this.#slot >= SLOTS) this.#forgetAll();
    else {
      for (let past = this.#slot + 1; past <= slot; past++) {
        this.#total -= this.#counts[past % SLOTS]!;
        this.#counts[past % SLOTS] = 0;
      }
    }
    this.#slot = slot;
    this.#slotEnd = (slot + 1) * SLOT;
    this.#recent = this.#sureOfRecent();
  }

  /** The highest rate that the last whole slots make sure of, be it the last one, two, or more of them. */
  #sureOfRecent(): number {
    let [count, sure] = [0, 0];
    for (let slots = 1; slots <= RECENT_SLOTS; slots++) {
      count += this.#counts[(this.#slot - slots + SLOTS) % SLOTS]!;
      sure = Math.max(sure, (count - CHANCE * Math.sqrt(count)) / (slots * SLOT));
    }
    return sure;
  }

  #endSlot(): void {
    this.#counts[this.#slot % SLOTS] = this.#current;
    this.#total += this.#current;
    this.#current = 0;
  }

  #forgetAll(): void {
    this.#counts.fill(0);
    this.#total = 0;
  }
}

/** Inserts a value into the first `last` + 1 of some that fall, where the last of them goes. */
function insert(falling: Float64Array, last: number, value: number): void {
  let at = last;
  for (; at > 0 && falling[at - 1]! < value; at--) falling[at] = falling[at - 1]!;
  falling[at] = value;
}
