/**
 * LatencyObserver: l(b) from live runs. It keeps a sliding window of run times per batch size, seeded by a profile.
 * Planning uses a high quantile, accounting the mean. docs/architecture.md, section 5.
 *
 *   O1. A size with fewer than SAMPLES_MIN runs in the window plans with the seed, scaled by how much slower than its
 *       seed the nearest measured sizes run, but never below the seed: a size that wasn't measured isn't assumed to be
 *       faster.
 *   O2. Planning never takes more than PLANNING_CAP medians: a run that was descheduled for a moment must not make a
 *       model infeasible for as long as it is in the window.
 *   O3. A size with enough runs plans with its own quantile, faster or slower than the seed.
 */
import { assert, type Instant, type Micros } from "@tutti/units";
import { LatencyTable } from "./latency-table.ts";
import { SlidingHistogram } from "./log-histogram.ts";

const SAMPLES_MIN = 20;
/**
 * With busy neighbours a run takes up to three times as long (docs/architecture.md, section 8); longer runs are
 * outliers.
 */
export const PLANNING_CAP = 3;

export class LatencyObserver {
  readonly #seed: LatencyTable;
  readonly #quantile: number;
  readonly #window: Micros;
  /** By batch size; created when a size first runs. */
  readonly #runs: (SlidingHistogram | undefined)[];

  constructor({ seed, quantile, window }: { seed: LatencyTable; quantile: number; window: Micros }) {
    assert(quantile > 0 && quantile <= 1, `quantile ${quantile}`);
    this.#seed = seed;
    this.#quantile = quantile;
    this.#window = window;
    this.#runs = new Array<SlidingHistogram | undefined>(seed.batchSizeMax + 1).fill(undefined);
  }

  /** Records that a batch of `batchSize` took `run`. Sizes that the seed doesn't have are ignored. */
  note(at: Instant, batchSize: number, run: Micros): void {
    if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > this.#seed.batchSizeMax) return;
    (this.#runs[batchSize] ??= new SlidingHistogram(this.#window)).note(at, run);
  }

  /** Latency table for planning: the quantile of each size, capped (O2). */
  planning(at: Instant): LatencyTable {
    return this.#table(at, (runs) => cappedQuantile(runs, at, this.#quantile), 1);
  }
  /** Latency table for accounting: the mean of each size. */
  mean(at: Instant): LatencyTable {
    return this.#table(at, (runs) => runs.mean(at), 0);
  }

  #table(at: Instant, measure: (runs: SlidingHistogram) => number, ratioMin: number): LatencyTable {
    const ratios: { batchSize: number; ratio: number }[] = [];
    for (let b = 1; b <= this.#seed.batchSizeMax; b++) {
      const runs = this.#runs[b];
      if (runs !== undefined && runs.count(at) >= SAMPLES_MIN)
        ratios.push({ batchSize: b, ratio: Math.max(1, measure(runs)) / this.#seed.latency(b) });
    }
    if (ratios.length === 0) return this.#seed;
    let next = 0; // the first measured size at b or above it
    const points = this.#seed.toPoints().map(({ batchSize, latency }) => {
      while (next < ratios.length && ratios[next]!.batchSize < batchSize) next++;
      const [below, above] = [ratios[next - 1], ratios[next]];
      if (above?.batchSize === batchSize) return { batchSize, latency: (latency * above.ratio) as Micros };
      const nearest = Math.max(ratioMin, below?.ratio ?? 0, above?.ratio ?? 0);
      return { batchSize, latency: (latency * nearest) as Micros };
    });
    return LatencyTable.fromPoints(points);
  }
}

function cappedQuantile(runs: SlidingHistogram, at: Instant, quantile: number): number {
  return Math.min(runs.quantile(at, quantile), PLANNING_CAP * runs.quantile(at, 0.5));
}
