/**
 * Histograms of latencies: HdrHistogram with three significant digits, whose encoded form tools of other languages read
 * too.
 */
import { type Histogram, build, encodeIntoCompressedBase64 } from "hdr-histogram-js";

/** Milliseconds. Null where there were no values. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly p999: number | null;
  readonly max: number | null;
  readonly mean: number | null;
}

/** One point of a curve: `percent` of the values are at most `ms`. */
export type PercentilePoint = readonly [percent: number, ms: number];

/** Percentiles of the curve, denser where it is steep: up to five nines. */
const CURVE = [
  0, 10, 25, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 97, 98, 99, 99.3, 99.5, 99.7, 99.9, 99.95, 99.99, 99.999,
];
/** An hour: longer values count as an hour. */
const LONGEST_US = 3_600e6;

export class LatencyHistogram {
  readonly #histogram: Histogram = build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: 2_000_000,
    autoResize: true,
    numberOfSignificantValueDigits: 3,
  });
  #sum = 0;
  /** Exact maximum: the histogram's own is rounded up within its bucket. */
  #max = 0;

  get count(): number {
    return this.#histogram.totalCount;
  }

  /** @param us - microseconds; fractions are dropped, and below 0 is 0 */
  note(us: number): void {
    const value = Math.min(LONGEST_US, Math.max(0, Math.floor(us)));
    this.#histogram.recordValue(value);
    this.#sum += value;
    this.#max = Math.max(this.#max, value);
  }

  /** Milliseconds that `percent` of all values don't exceed, at most 0.1 % high; null without values. */
  at(percent: number): number | null {
    if (this.count === 0) return null;
    return millisOf(Math.min(this.#max, this.#histogram.getValueAtPercentile(percent)));
  }

  percentiles(): Percentiles {
    const isEmpty = this.count === 0;
    return {
      ...{ p50: this.at(50), p90: this.at(90), p99: this.at(99), p999: this.at(99.9) },
      max: isEmpty ? null : millisOf(this.#max),
      mean: isEmpty ? null : millisOf(this.#sum / this.count),
    };
  }

  /** Percentiles with at least one value beyond them: 100 values say nothing above the 99th percentile. */
  curve(): PercentilePoint[] {
    return CURVE.filter((percent) => this.count * (1 - percent / 100) >= 1 - 1e-9).map((percent) => [
      percent,
      this.at(percent)!,
    ]);
  }

  /** HdrHistogram's V2 compressed form in base64; values are microseconds. */
  encoded(): string {
    return encodeIntoCompressedBase64(this.#histogram);
  }
}

const millisOf = (us: number): number => Number((us / 1_000).toFixed(3));
