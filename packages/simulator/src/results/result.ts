/** Output of `tutti simulate --json`: field names and units are public. Times in ms. */
export interface SimulationResult {
  readonly seed: number;
  readonly policy: string;
  /** Requests per second after the warm-up. */
  readonly offeredRps: number;
  /** Requests per second that were answered by their deadlines. */
  readonly goodRps: number;
  /** Refused and late requests, as a share of all offered: 0 … 1. */
  readonly badRate: number;
  /** Where some requests have costs in steps. */
  readonly cost?: CostResult;
  readonly gpu: {
    readonly count: number;
    /** Accelerators that were busy for more than 1 % of the time. */
    readonly used: number;
    /** Busy share of all accelerators together. */
    readonly busyFraction: number;
  };
  readonly batchSize: { readonly mean: number; readonly p50: number; readonly p99: number };
  /** From arrival to the start of the batch, of requests that ran. */
  readonly queueDelayMs: { readonly p50: number; readonly p99: number };
  readonly models: readonly ModelResult[];
  /**
   * Pipelines in the order of the scenario. The models' rows then count requests of stages, the totals those of
   * publishers.
   */
  readonly pipelines?: readonly PipelineResult[];
  /** Figures of the planner, where accelerators came and went. */
  readonly planner?: PlannerResult;
  /** Where the default policy chose between whole accelerators and halves. */
  readonly division?: DivisionResult;
  /** Where several sub-clusters were asked for. */
  readonly subClusters?: SubClusterResult;
  /** Where there are jobs; `gpu.busyFraction` is then that of requests. */
  readonly jobs?: JobsResult;
}

export interface JobsResult {
  /** Busy share of all accelerators together, with jobs alone and with both. */
  readonly busyFraction: number;
  readonly usedFraction: number;
  /** The longest that a batch of jobs may run beside these models; one that takes longer never runs. */
  readonly runMaxMs: number;
  readonly loads: readonly JobLoadResult[];
  /** The same requests on accelerators that have no jobs. */
  readonly without?: RequestsAlone;
}

export interface JobLoadResult {
  readonly name: string;
  readonly rps: number;
  readonly batchMean: number;
  /** Whether even one of these jobs takes longer than `runMaxMs`: none is ever run. */
  readonly isTooLong: boolean;
}

export interface RequestsAlone {
  readonly badRate: number;
  readonly busyFraction: number;
  /** By model, as in `models`. */
  readonly p99Ms: readonly (number | null)[];
}

export interface SubClusterResult {
  readonly asked: number;
  /** Fewer where the division would carry less than nine tenths of what one carries. */
  readonly used: number;
  /** Rates that are expected to be carried in as many as are asked for, and in one; left out where nobody can tell. */
  readonly dividedRps?: number;
  readonly undividedRps?: number;
}

/** Rates that are expected to be carried in the scenario's mix, by docs/algorithms.md, D9. */
export interface DivisionResult {
  readonly kind: "whole" | "halves";
  /** The types that run as halves, where accelerators are unlike. */
  readonly types?: readonly string[];
  readonly wholeRps: number;
  /** With the types divided that are; with all where none is. */
  readonly halvesRps: number;
  /** The model that waits for too long on whole accelerators beyond their rate; null: their work is the limit. */
  readonly waitsOnWhole: string | null;
}

export interface PipelineResult {
  readonly name: string;
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Answer times of requests to the pipeline; refused ones count as infinite, which is null in JSON. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** Share of all the pipeline's requests that each stage refused: 0 … 1. */
  readonly refusedAt: readonly { readonly stage: string; readonly share: number }[];
}

export interface PlannerResult {
  /** Mean number after the warm-up, including starting and draining accelerators. */
  readonly gpusMean: number;
  /** Epochs from the beginning, in order; one that the end of the arrivals would cut is left out. */
  readonly windows: readonly PlannerWindow[];
}

export interface PlannerWindow {
  readonly fromS: number;
  readonly untilS: number;
  /** Rates of the requests that arrived in the window. */
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Mean number, including starting and draining accelerators. */
  readonly gpus: number;
  /** Accelerators that were busy, on average. */
  readonly busy: number;
  /** Accelerators asked for (+) or offered (-) in the window; more than there can be is possible. */
  readonly advice: number;
}

export interface ModelResult {
  readonly name: string;
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Where some of its requests have costs in steps. */
  readonly cost?: CostResult;
  /** Answer times; refused requests count as infinite, which is null in JSON. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly batchMean: number;
  /** Applications of a dynamic model, in the order of the scenario. */
  readonly apps?: readonly AppResult[];
}

export interface AppResult {
  readonly name: string;
  readonly offeredRps: number;
  readonly goodRps: number;
  readonly badRate: number;
  /** Share of the offered requests that were answered by their deadlines: 0 … 1. */
  readonly finishRate: number;
  /** Where some requests of its model have costs in steps. */
  readonly cost?: CostResult;
}

/** Costs of late and missing answers (docs/algorithms.md, B8). A request without steps costs 1 after its deadline. */
export interface CostResult {
  /** Mean per offered request. */
  readonly mean: number;
  readonly total: number;
}
