/**
 * What interference is measured on: two parts of an accelerator, each running batches without a pause. Times in ms,
 * sizes in percent.
 */

export interface BenchModel {
  readonly name: string;
  readonly sloMs: number;
  readonly batchMax: number;
  /** What is measured: the sizes of batches, ascending, the last `batchMax`. */
  readonly batchSizes: readonly number[];
}
export interface PartRun {
  /** Its place in the list. */
  readonly model: number;
  readonly batchSize: number;
  readonly size: number;
}
/** Of the shared cache and of the memory bandwidth, alone on a whole accelerator: 0 to 1. */
export interface Uses {
  readonly cacheUse: number;
  readonly bandwidthUse: number;
}

export interface PartsBench {
  readonly models: readonly BenchModel[];
  /** Ascending, the last 100. */
  readonly sizes: readonly number[];
  /** Run after run, with nothing on the other part. On the first part, or on the second. */
  alone(run: PartRun, place: 0 | 1): Promise<readonly number[]>;
  /** The same while both run. */
  together(pair: readonly [PartRun, PartRun]): Promise<readonly [readonly number[], readonly number[]]>;
  /** @param wholeMs - what a batch of `batchMax` takes alone */
  uses(model: number, wholeMs: number): Uses;
  close(): Promise<void>;
}
