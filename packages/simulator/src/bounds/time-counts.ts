/**
 * Counts of times: exact below 4096 µs, then 2048 steps to a factor of two, so a quantile is at most 0.05 % high and
 * never low. Memory comes with the magnitudes that occur, 8 KB for each factor of two, and doesn't grow with the count.
 *
 * Times are kept for a while and counted together: of four hundred models' counts hardly a place stays in the cache
 * from one time to the next.
 */
const STEP_BITS = 11;
const STEPS = 2 ** STEP_BITS;
const KEPT = 512;

export class TimeCounts {
  /** By magnitude: entry 0 counts 0 … 2047 µs singly, entry m counts 2^(m+10) … 2^(m+11) in 2048 steps of 2^(m−1). */
  readonly #counts: (Uint32Array | undefined)[] = [];
  /** Counted: all but the kept ones. */
  #count = 0;
  #largest = 0;
  readonly #kept = new Uint32Array(KEPT);
  #keptCount = 0;

  get count(): number {
    return this.#count + this.#keptCount;
  }

  /** @param time - whole µs, at least 0 */
  note(time: number): void {
    if (time > 0xffff_ffff) return this.#note(time);
    this.#kept[this.#keptCount++] = time;
    if (this.#keptCount === KEPT) this.#noteKept();
  }

  /**
   * The time that `share` of `total` samples don't exceed; +Infinity where that is more than were noted, NaN of none.
   */
  quantile(share: number, total: number = this.count): number {
    this.#noteKept();
    if (total === 0) return NaN;
    const rank = Math.max(1, Math.ceil(share * total - 1e-9));
    if (rank > this.#count) return Infinity;
    let seen = 0;
    for (const [magnitude, counts] of this.#counts.entries()) {
      for (let step = 0; counts !== undefined && step < STEPS; step++) {
        seen += counts[step]!;
        if (seen >= rank) return Math.min(upperEdge(magnitude, step), this.#largest);
      }
    }
    return this.#largest;
  }

  #noteKept(): void {
    for (let i = 0; i < this.#keptCount; i++) this.#note(this.#kept[i]!);
    this.#keptCount = 0;
  }
  #note(time: number): void {
    const magnitude = magnitudeOf(time);
    const counts = (this.#counts[magnitude] ??= new Uint32Array(STEPS));
    const step = magnitude === 0 ? time : Math.floor(time / 2 ** (magnitude - 1)) - STEPS;
    counts[step] = counts[step]! + 1;
    this.#count++;
    if (time > this.#largest) this.#largest = time;
  }
}

/** 0 below 2048, then one more for each factor of two. */
const magnitudeOf = (time: number): number =>
  time < STEPS ? 0 : time < 2 ** 31 ? 32 - STEP_BITS - Math.clz32(time) : Math.floor(Math.log2(time)) - STEP_BITS + 1;

const upperEdge = (magnitude: number, step: number): number =>
  magnitude === 0 ? step : (STEPS + step + 1) * 2 ** (magnitude - 1) - 1;
