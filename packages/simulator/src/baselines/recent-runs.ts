/** RecentRuns: predicted running times of Clockwork-like, the mean of the last runs of a batch size, per model. */
import type { DynamicLoad } from "../dynamic/dynamic-load.ts";
import type { PlannedLatencies } from "./gathering.ts";

/**
 * Number of runs, as in the constants of Clockwork's scheduler. There the longest of them counts; Orloj, §2.2 and §2.3,
 * found that it predicts by the average.
 */
const WINDOW = 10;

export class RecentRuns implements PlannedLatencies {
  readonly batchSizeMax: number;
  readonly byBatchSize: Float64Array;
  readonly #sizes: readonly number[];
  readonly #expected: PlannedLatencies;
  /** Runs by batch size, the newest last. */
  readonly #runs = new Map<number, number[]>();

  /** @param expected - times of sizes that have not run yet */
  constructor({ sizes }: Pick<DynamicLoad, "sizes">, expected: PlannedLatencies) {
    this.#sizes = sizes;
    this.#expected = expected;
    this.batchSizeMax = expected.batchSizeMax;
    this.byBatchSize = Float64Array.from(expected.byBatchSize);
  }

  /** The largest supported size for `count` requests; 0: none. */
  supported(count: number): number {
    return this.#sizes.findLast((size) => size <= count) ?? 0;
  }

  note(size: number, time: number): void {
    const runs = this.#runs.get(size) ?? [];
    runs.push(time);
    if (runs.length > WINDOW) runs.shift();
    this.#runs.set(size, runs);
    // Larger batches are predicted to take at least as long.
    let least = 0;
    for (let b = 1; b <= this.batchSizeMax; b++) {
      const known = this.#runs.get(b);
      least = Math.max(
        least,
        known === undefined ? this.#expected.byBatchSize[b]! : known.reduce((a, b) => a + b, 0) / known.length,
      );
      this.byBatchSize[b] = least;
    }
  }
}
