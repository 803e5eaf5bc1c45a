/**
 * Measures the lead of the wall clock over the monotonic counter, far finer than the wall clock's own millisecond. Each
 * reading D between two counter readings a and b says that the offset lies in (1000·D − b, 1000·(D + 1) − a], and
 * readings on both sides of a tick leave less than a microsecond.
 */

export interface TimeSources {
  /** Microseconds of CLOCK_MONOTONIC, the same counter in every process of the host. */
  readonly monotonicUs: () => number;
  /** Whole milliseconds since the Unix epoch, as Date.now() gives them. */
  readonly wallMs: () => number;
}

export const nodeTimeSources: TimeSources = {
  // `process.hrtime` reads the same counter, but makes an array each time: 10 MB a second in a scheduler with load.
  monotonicUs: () => ORIGIN_US + 1e3 * performance.now(),
  wallMs: Date.now,
};

/** The counter at the time from which `performance.now` counts. */
const ORIGIN_US = originUs();

function originUs(): number {
  let least = Infinity;
  for (let i = 0; i < 16; i++) {
    const beforeMs = performance.now();
    const [s, ns] = process.hrtime();
    least = Math.min(least, s * 1e6 + ns / 1e3 - 1e3 * beforeMs);
  }
  return least;
}

const TOLERANCE_US = 5;

export class OffsetBounds {
  least = -Infinity;
  most = Infinity;

  sample({ monotonicUs, wallMs }: TimeSources): void {
    const a = monotonicUs();
    const wall = wallMs() * 1e3;
    const b = monotonicUs();
    this.least = Math.max(this.least, wall - b);
    this.most = Math.min(this.most, wall + 1e3 - a);
    // Contradictory bounds: the wall clock was set in between. Only the new time counts.
    if (this.least > this.most) [this.least, this.most] = [wall - b, wall + 1e3 - a];
  }
  /** Whether `offset` can be the true one, within the few microseconds of measuring error. */
  allow(offset: number): boolean {
    return offset > this.least - TOLERANCE_US && offset < this.most + TOLERANCE_US;
  }
  get width(): number {
    return this.most - this.least;
  }
  get middle(): number {
    return (this.least + this.most) / 2;
  }
}

const GOOD_US = 2;

/**
 * Reads until a tick was seen well (about a millisecond), or until `budgetUs` is used up, with the precision reached.
 */
export function measureOffset(sources: TimeSources, budgetUs: number): OffsetBounds {
  const bounds = new OffsetBounds();
  const start = sources.monotonicUs();
  do bounds.sample(sources);
  while (bounds.width > GOOD_US && sources.monotonicUs() - start < budgetUs);
  return bounds;
}
