/** What a placement is made from, and what one says. Rates are in requests per second, memory in bytes. */
import type { GpuId } from "@tutti/units";

export interface ModelToPlace {
  readonly number: number;
  readonly name: string;
  readonly rate: number;
  /** Accelerators that it keeps busy at that rate: rate × l(b*)/b*. */
  readonly work: number;
  readonly memoryBytes: number;
  /** It isn't moved to balance loads: its last move failed. */
  readonly isPinned?: boolean;
  /** Its move takes too long: it is taken back. */
  readonly isStuck?: boolean;
}

/** One process: its accelerators move together, since they share its models and its memory. */
export interface ExecutorToPlace {
  readonly key: number;
  readonly gpus: readonly GpuId[];
  /** For the weights of its models together; Infinity: enough. */
  readonly memoryBytesMax: number;
  /** Whose leader it obeys now. */
  readonly subCluster: string;
  /** Numbers of the models that it has loaded. */
  readonly loaded: ReadonlySet<number>;
}

/** Where models and accelerators belong: what the planner writes. */
export interface Places {
  readonly models: readonly { readonly number: number; readonly subCluster: string; readonly next?: string }[];
  readonly gpus: readonly { readonly gpu: GpuId; readonly subCluster: string }[];
}

export interface PlacementProblem {
  /** Those with a living leader; the first ones are preferred where all are alike. */
  readonly subClusters: readonly string[];
  readonly models: readonly ModelToPlace[];
  /** Those that live. */
  readonly executors: readonly ExecutorToPlace[];
  /** What stands; undefined: nobody has ever planned. */
  readonly before: Places | undefined;
  /** Accelerators that are away and may be back soon: they keep their places, and nobody counts on them. */
  readonly awaited: ReadonlySet<GpuId>;
  /** Bytes that moves may still load and unload, to balance loads. What has lost its place moves whatever it costs. */
  readonly costMax: number;
  /** Whether anything may move only to balance loads; otherwise only what has no place gets one. */
  readonly mayBalance: boolean;
  readonly seed: number;
}

export interface ModelMove {
  readonly number: number;
  readonly from: string;
  readonly to: string;
  /** Bytes: loaded there, unloaded here. */
  readonly cost: number;
  /** It had to: where it was, nobody can run it. */
  readonly isForced: boolean;
}
export interface ExecutorMove {
  readonly key: number;
  readonly gpus: readonly GpuId[];
  /** undefined: it is new. */
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
  /** Of its models, those that come and those that go included. */
  readonly memoryBytes: number;
  readonly gpus: number;
  /** Accelerators that its share of the work is worth. */
  readonly gpusIdeal: number;
}

/** Why something is where it is. */
export interface PlacementReason {
  readonly about: string;
  readonly text: string;
}

export interface PlacementPlan extends Places {
  readonly modelMoves: readonly ModelMove[];
  readonly executorMoves: readonly ExecutorMove[];
  /** Moves that came to their end: models that are served where they went. */
  readonly arrived: readonly number[];
  /** What would balance loads better, and waits for room or for the next epoch's budget. */
  readonly waiting: readonly ModelMove[];
  readonly leftOut: readonly LeftOut[];
  /** Accelerators that are too small for any sub-cluster's models. */
  readonly unused: readonly GpuId[];
  readonly loads: readonly SubClusterLoad[];
  readonly reasons: readonly PlacementReason[];
}
