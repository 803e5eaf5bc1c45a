/** What `tutti simulate --json` prints: field names and units are public. Times in ms. */
export interface SimulationResult {
  readonly seed: number;
  readonly policy: string;
  /** Requests per second after the warm-up. */
  readonly offeredRps: number;
  /** Answered by their deadlines. */
  readonly goodRps: number;
  /** Refused or late, of all offered: 0 … 1. */
  readonly badRate: number;
  readonly gpu: {
    readonly count: number;
    /** That were busy for more than 1 % of the time. */
    readonly used: number;
    /** Of all accelerators together. */
    readonly busyFraction: number;
  };
  readonly batchSize: { readonly mean: number; readonly p50: number; readonly p99: number };
  /** From arrival to the start of the batch, of requests that ran. */
  readonly queueDelayMs: { readonly p50: number; readonly p99: number };
  readonly models: readonly ModelResult[];
}

export interface ModelResult {
  readonly name: string;
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Answer times; refused requests count as infinite, which is null in JSON. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly batchMean: number;
}
