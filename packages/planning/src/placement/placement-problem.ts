/** Input and result of a placement. Rates are in requests per second, memory in bytes. */
import type { GpuId } from "@tutti/units";

export interface ModelToPlace {
  readonly number: number;
  readonly name: string;
  readonly rate: number;
  /** Accelerators that it keeps busy at that rate: rate × l(b*)/b*. */
  readonly work: number;
  /** Its weights, which stay loaded. */
  readonly memoryBytes: number;
  /**
   * Memory that a run of it takes besides; one model runs at a time, so of an accelerator's models the largest counts.
   */
  readonly dynamicBytes?: number;
  /** Whether its last move failed: it isn't moved to balance loads. */
  readonly isPinned?: boolean;
  /** Whether its move takes too long: the move is taken back. */
  readonly isStuck?: boolean;
}

/** One executor process: its accelerators move together, since they share its models and its memory. */
export interface ExecutorToPlace {
  readonly key: number;
  readonly gpus: readonly GpuId[];
  /** Memory for the weights of its models together and the largest run; Infinity: enough. */
  readonly memoryBytesMax: number;
  /** Sub-cluster whose leader it follows now. */
  readonly subCluster: string;
  /** Numbers of the models that it has loaded. */
  readonly loaded: ReadonlySet<number>;
}

/** Sub-clusters of models and accelerators, as the planner writes them. */
export interface Places {
  readonly models: readonly { readonly number: number; readonly subCluster: string; readonly next?: string }[];
  readonly gpus: readonly { readonly gpu: GpuId; readonly subCluster: string }[];
}

export interface PlacementProblem {
  /** Sub-clusters with a living leader; the first ones are preferred where all are alike. */
  readonly subClusters: readonly string[];
  /** Sub-clusters with a leader that are not to be used: their models leave, and then their accelerators. */
  readonly closing?: ReadonlySet<string>;
  /** Requests per second that a ranker can decide for (R_max of docs/algorithms.md, E1). Default: unbounded. */
  readonly rateMax?: number;
  /**
   * How many times their present rates accelerators carry of models (D9); undefined: unknown, or nobody asks for them.
   * Default: nothing is known.
   */
  readonly carries?: (models: readonly number[], gpus: number) => number | undefined;
  /** The cost of asking for it, as a multiple of what a pool of one type costs. Default: 1. */
  readonly carriesCost?: number;
  readonly models: readonly ModelToPlace[];
  /** Living executors. */
  readonly executors: readonly ExecutorToPlace[];
  /** Current places; undefined: there was no plan before. */
  readonly before: Places | undefined;
  /** Accelerators that are away and may be back soon: they keep their places, but the plan doesn't rely on them. */
  readonly awaited: ReadonlySet<GpuId>;
  /** Bytes that moves may still load and unload to balance loads. A model that has lost its place moves at any cost. */
  readonly costMax: number;
  /**
   * Whether anything may move only to balance loads; otherwise places are given only to models and executors without
   * one.
   */
  readonly mayBalance: boolean;
  readonly seed: number;
}

export interface ModelMove {
  readonly number: number;
  readonly from: string;
  readonly to: string;
  /** Bytes to load at the target and to unload at the source. */
  readonly cost: number;
  /** Whether it had to move: its old sub-cluster can't run it. */
  readonly isForced: boolean;
}
export interface ExecutorMove {
  readonly key: number;
  readonly gpus: readonly GpuId[];
  /** undefined: the executor is new. */
  readonly from: string | undefined;
  readonly to: string;
}
export interface LeftOut {
  readonly number: number;
  readonly name: string;
  readonly memoryBytes: number;
  /** The most that any accelerator holds, and the most that is free where models could go; 0 without accelerators. */
  readonly largestBytes: number;
  readonly freeBytes: number;
}

export interface SubClusterLoad {
  readonly subCluster: string;
  readonly models: number;
  readonly rate: number;
  readonly work: number;
  /** Memory of its models, including those that come and those that go, and the largest run besides. */
  readonly memoryBytes: number;
  readonly dynamicBytes: number;
  readonly gpus: number;
  /** Its share of the accelerators. */
  readonly gpusIdeal: number;
}

/** Explains why something is where it is. */
export interface PlacementReason {
  readonly about: string;
  readonly text: string;
}

export interface PlacementPlan extends Places {
  readonly modelMoves: readonly ModelMove[];
  readonly executorMoves: readonly ExecutorMove[];
  /** Moves that have ended: models that are now served at their targets. */
  readonly arrived: readonly number[];
  /** Moves that would balance loads better, but wait for room or for the next epoch's budget. */
  readonly waiting: readonly ModelMove[];
  readonly leftOut: readonly LeftOut[];
  /** Accelerators that are too small for any sub-cluster's models. */
  readonly unused: readonly GpuId[];
  readonly loads: readonly SubClusterLoad[];
  readonly reasons: readonly PlacementReason[];
}
