/** Counts of durations in buckets that are 6 % wide: 1 µs each below 16 µs, then sixteen an octave, up to a minute. */
const BUCKETS_PER_OCTAVE = 16;
const BUCKETS = BUCKETS_PER_OCTAVE * 26;

function bucketOf(us: number): number {
  if (us < BUCKETS_PER_OCTAVE) return Math.max(0, Math.floor(us));
  const octave = Math.floor(Math.log2(us)) - 3;
  const bucket = octave * BUCKETS_PER_OCTAVE + Math.floor(us / 2 ** (octave - 1)) - BUCKETS_PER_OCTAVE;
  return Math.min(BUCKETS - 1, bucket);
}
function upperEdge(bucket: number): number {
  if (bucket < BUCKETS_PER_OCTAVE) return bucket + 1;
  const octave = Math.floor(bucket / BUCKETS_PER_OCTAVE);
  return ((bucket % BUCKETS_PER_OCTAVE) + BUCKETS_PER_OCTAVE + 1) * 2 ** (octave - 1);
}

export class DurationHistogram {
  readonly #counts = new Uint32Array(BUCKETS);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** A negative duration counts as zero, one beyond a minute as a minute. */
  record(us: number): void {
    this.#counts[bucketOf(us)]!++;
    this.#count++;
  }

  add(other: DurationHistogram): void {
    for (let bucket = 0; bucket < BUCKETS; bucket++) this.#counts[bucket]! += other.#counts[bucket]!;
    this.#count += other.#count;
  }

  clear(): void {
    this.#counts.fill(0);
    this.#count = 0;
  }

  /** The upper edge of the bucket below which a share `q` of all durations lies; 0: there is none. */
  static percentile(all: readonly DurationHistogram[], q: number): number {
    const total = all.reduce((sum, { count }) => sum + count, 0);
    if (total === 0) return 0;
    let left = Math.ceil(total * q);
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      for (const one of all) left -= one.#counts[bucket]!;
      if (left <= 0) return upperEdge(bucket);
    }
    return upperEdge(BUCKETS - 1);
  }
}
