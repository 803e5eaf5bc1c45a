/**
 * A histogram of durations with buckets of equal ratio: 16 to a factor of two, so a quantile is at most 4.5 % high and
 * never low. 640 buckets cover 0 to 2^40 µs (12 days). Nothing is allocated per sample.
 */
const PER_OCTAVE = 16;
const BUCKETS = 640;

export class LogHistogram {
  readonly #counts = new Uint32Array(BUCKETS);
  #count = 0;
  #sum = 0;
  #largest = 0;

  get count(): number {
    return this.#count;
  }
  get sum(): number {
    return this.#sum;
  }

  note(sample: number): void {
    const value = sample > 0 ? sample : 0;
    const bucket = bucketOf(value);
    this.#counts[bucket] = this.#counts[bucket]! + 1;
    this.#count++;
    this.#sum += value;
    if (value > this.#largest) this.#largest = value;
  }

  clear(): void {
    this.#counts.fill(0);
    this.#count = this.#sum = this.#largest = 0;
  }

  /**
   * The quantile of two histograms taken together: the upper edge of its bucket, but no more than the largest sample.
   */
  static quantileOf(a: LogHistogram, b: LogHistogram, quantile: number): number {
    const rank = Math.max(1, Math.ceil(quantile * (a.#count + b.#count) - 1e-9));
    let seen = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      seen += a.#counts[bucket]! + b.#counts[bucket]!;
      if (seen >= rank) return Math.min(upperEdge(bucket), Math.max(a.#largest, b.#largest));
    }
    return 0;
  }
}

const bucketOf = (value: number): number =>
  value <= 1 ? 0 : Math.min(BUCKETS - 1, Math.ceil(Math.log2(value) * PER_OCTAVE - 1e-9));
const upperEdge = (bucket: number): number => Math.ceil(2 ** (bucket / PER_OCTAVE) - 1e-9);

/** Samples of the last one to two windows, in two generations: the older is forgotten when the newer is full. */
export class SlidingHistogram {
  readonly #window: number;
  #newer = new LogHistogram();
  #older = new LogHistogram();
  #newerUntil = -Infinity;

  constructor(window: number) {
    this.#window = window;
  }

  note(at: number, sample: number): void {
    this.#turn(at);
    this.#newer.note(sample);
  }
  count(at: number): number {
    this.#turn(at);
    return this.#newer.count + this.#older.count;
  }
  /** 0 when there are no samples. */
  quantile(at: number, quantile: number): number {
    this.#turn(at);
    return LogHistogram.quantileOf(this.#newer, this.#older, quantile);
  }
  /** 0 when there are no samples. */
  mean(at: number): number {
    const count = this.count(at);
    return count === 0 ? 0 : (this.#newer.sum + this.#older.sum) / count;
  }

  #turn(at: number): void {
    if (at < this.#newerUntil) return;
    const [past, older] = [this.#newer, this.#older];
    older.clear();
    if (at >= this.#newerUntil + this.#window) past.clear();
    this.#older = past;
    this.#newer = older;
    this.#newerUntil = at + this.#window;
  }
}
