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
  /** In the order of the scenario. The models' rows then count requests of stages, the totals those of publishers. */
  readonly pipelines?: readonly PipelineResult[];
  /** Where accelerators came and went. */
  readonly planner?: PlannerResult;
}

export interface PipelineResult {
  readonly name: string;
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Answer times of the whole; refused ones count as infinite, which is null in JSON. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** Of all its requests, those that each stage refused: 0 … 1. */
  readonly refusedAt: readonly { readonly stage: string; readonly share: number }[];
}

export interface PlannerResult {
  /** On average after the warm-up; starting and draining ones count. */
  readonly gpusMean: number;
  /** Epoch after epoch from the beginning; one that the end of the arrivals would cut is left out. */
  readonly windows: readonly PlannerWindow[];
}

export interface PlannerWindow {
  readonly fromS: number;
  readonly untilS: number;
  /** Of requests that arrived in it. */
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** On average, starting and draining ones too. */
  readonly gpus: number;
  /** Accelerators that were busy, on average. */
  readonly busy: number;
  /** Accelerators asked for (+) or offered (-) in it; more than there can be is possible. */
  readonly advice: number;
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
  /** Of a dynamic model, in the order of the scenario. */
  readonly apps?: readonly AppResult[];
}

export interface AppResult {
  readonly name: string;
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Answered by their deadlines, of those offered: 0 … 1. */
  readonly finishRate: number;
}
