/**
 * Lateness of alarms over a moving window: the guard of docs/algorithms.md, A9. Bounded memory: two histograms that
 * alternate, and the last percentiles.
 */
import { type Instant, type Micros, after } from "@tutti/units";

export interface LatenessOptions {
  /** The guard is never less than this. */
  readonly floor: Micros;
  /** The guard looks back over half this window to the whole of it. */
  readonly window: Micros;
}

export interface LatenessReport {
  /** Counted since the clock was made. */
  readonly fires: number;
  readonly within100us: number;
  /** Percentiles of the window: upper edges of buckets that are 6 % wide. */
  readonly p50: Micros;
  readonly p90: Micros;
  readonly p99: Micros;
  readonly p999: Micros;
  /**
   * p99.9 of the window, at least the floor. The cap is five times the larger of the floor and the median p99.9 of the
   * last minutes.
   */
  readonly guard: Micros;
  /** The guard is at its cap: timers have become much later than usual. */
  readonly capped: boolean;
}

const BUCKETS_PER_OCTAVE = 16;
const BUCKETS = BUCKETS_PER_OCTAVE * 26; // up to a minute
const HISTORY_MAX = 120;
const CAP_FACTOR = 5;
/** Half windows at the floor that the history begins with: a start under load is not representative. */
const HISTORY_SEED = 12;

/** Buckets of 1 µs below 16 µs, then sixteen an octave. */
function bucketOf(lateness: number): number {
  if (lateness < BUCKETS_PER_OCTAVE) return Math.max(0, Math.floor(lateness));
  const octave = Math.floor(Math.log2(lateness)) - 3;
  const bucket = octave * BUCKETS_PER_OCTAVE + Math.floor(lateness / 2 ** (octave - 1)) - BUCKETS_PER_OCTAVE;
  return Math.min(BUCKETS - 1, bucket);
}
function upperEdge(bucket: number): number {
  if (bucket < BUCKETS_PER_OCTAVE) return bucket + 1;
  const octave = Math.floor(bucket / BUCKETS_PER_OCTAVE);
  return ((bucket % BUCKETS_PER_OCTAVE) + BUCKETS_PER_OCTAVE + 1) * 2 ** (octave - 1);
}

export class LatenessMeter {
  readonly #floor: number;
  readonly #halfWindow: Micros;
  #current = new Uint32Array(BUCKETS);
  #previous = new Uint32Array(BUCKETS);
  #counts = { current: 0, previous: 0, ever: 0, within100us: 0 };
  #rotateAt: Instant;
  /** p99.9 of the window at the end of each half window, where alarms fired in it. */
  readonly #history: number[];
  #guard: number;
  #capped = false;

  constructor(options: LatenessOptions, now: Instant) {
    this.#floor = options.floor;
    this.#halfWindow = Math.ceil(options.window / 2) as Micros;
    this.#guard = options.floor;
    this.#history = new Array<number>(HISTORY_SEED).fill(options.floor);
    this.#rotateAt = after(now, this.#halfWindow);
  }

  record(lateness: number, now: Instant): void {
    if (now >= this.#rotateAt) this.#rotate(now);
    const bucket = bucketOf(lateness);
    this.#current[bucket] = (this.#current[bucket] ?? 0) + 1;
    this.#counts.current++;
    this.#counts.ever++;
    if (lateness <= 100) this.#counts.within100us++;
  }

  /** Changes once in half a window, so that a scheduler's plans don't change with every fire. */
  guard(now: Instant): Micros {
    if (now >= this.#rotateAt) this.#rotate(now);
    return this.#guard as Micros;
  }

  report(now: Instant): LatenessReport {
    const guard = this.guard(now);
    const { ever: fires, within100us } = this.#counts;
    const [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map((q) => this.#percentile(q) as Micros);
    const none = 0 as Micros;
    return {
      fires,
      within100us,
      p50: p50 ?? none,
      p90: p90 ?? none,
      p99: p99 ?? none,
      p999: p999 ?? none,
      guard,
      capped: this.#capped,
    };
  }

  #rotate(now: Instant): void {
    if (this.#counts.current + this.#counts.previous > 0) {
      const measured = this.#percentile(0.999);
      this.#history.push(measured);
      if (this.#history.length > HISTORY_MAX) this.#history.shift();
      const sorted = this.#history.toSorted((a, b) => a - b);
      const median = sorted[(sorted.length - 1) >> 1] ?? 0;
      const cap = CAP_FACTOR * Math.max(this.#floor, median);
      this.#capped = measured > cap;
      this.#guard = Math.max(this.#floor, Math.min(cap, measured));
    }
    [this.#current, this.#previous] = [this.#previous, this.#current];
    this.#current.fill(0);
    this.#counts.previous = this.#counts.current;
    this.#counts.current = 0;
    this.#rotateAt = after(now, this.#halfWindow);
  }

  #percentile(q: number): number {
    const total = this.#counts.current + this.#counts.previous;
    let left = Math.ceil(total * q);
    if (total === 0) return 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= (this.#current[bucket] ?? 0) + (this.#previous[bucket] ?? 0);
      if (left <= 0) return upperEdge(bucket);
    }
    return upperEdge(BUCKETS - 1);
  }
}
