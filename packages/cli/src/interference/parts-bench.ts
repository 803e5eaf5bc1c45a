/**
 * Interface for measuring interference: two parts of an accelerator, each running batches without a pause. Times are in
 * ms, sizes in percent.
 */

export interface BenchModel {
  readonly name: string;
  readonly sloMs: number;
  readonly batchMax: number;
  /** The batch sizes to measure, ascending; the last is `batchMax`. */
  readonly batchSizes: readonly number[];
}
export interface PartRun {
  /** Index in the list of models. */
  readonly model: number;
  readonly batchSize: number;
  readonly size: number;
}
/** Use of the shared cache and of the memory bandwidth, alone on a whole accelerator: 0 to 1. */
export interface Uses {
  readonly cacheUse: number;
  readonly bandwidthUse: number;
}

export interface PartsBench {
  readonly models: readonly BenchModel[];
  /** Ascending; the last is 100. */
  readonly sizes: readonly number[];
  /** Latencies of successive runs on the first or the second part, with nothing on the other. */
  alone(run: PartRun, place: 0 | 1): Promise<readonly number[]>;
  /** Latencies of both runs while they run side by side. */
  together(pair: readonly [PartRun, PartRun]): Promise<readonly [readonly number[], readonly number[]]>;
  /** @param wholeMs - latency of a batch of `batchMax` alone on the whole accelerator */
  uses(model: number, wholeMs: number): Uses;
  close(): Promise<void>;
}
