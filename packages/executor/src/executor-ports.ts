/** Configuration and ports of an executor. */
import type { Engine } from "@tutti/ports/engine";
import type { ModelSpec, Strike } from "@tutti/protocol";
import type { DataClient } from "@tutti/ports/pull";
import type { GpuId, Micros } from "@tutti/units";
import type { ActorConfig, ActorPorts } from "@tutti/actors/runtime";

export interface ExecutorConfig extends ActorConfig {
  /** Accepted and unfinished batches per accelerator. A ranker that knows our free time never needs more than two. */
  readonly acceptedMax?: number;
  /** How long a drain or a move to another sub-cluster waits for batches that were granted before. Default: 250 ms. */
  readonly lingerFor?: Micros;
  /** How long a model that has left its sub-cluster is kept. Default: 1 s. */
  readonly keptFor?: Micros;
  /** Sub-cluster of the executor while no placement exists. Default: `main`. */
  readonly subCluster?: string;
  /** Bound of the weights of its models together, on each of its accelerators. Default: unbounded. */
  readonly memoryBytesMax?: number;
  /** Largest share of an accelerator's time for isolated runs (docs/algorithms.md, B9). Default: 0.05. */
  readonly aloneShare?: number;
}
export interface ExecutorPorts extends ActorPorts {
  readonly data: DataClient;
  readonly engines: readonly { readonly gpu: GpuId; readonly engine: Engine }[];
  /** The engine is unusable: the process must end, and be restarted. */
  readonly onFault: (reason: string) => void;
  /**
   * Present if the executor takes another's place on its accelerators. It is ready when it could serve, and serves once
   * `release` is called.
   */
  readonly held?: (release: () => void) => void;
  /** Runs and loads during which earlier processes of these accelerators ended without reporting it. */
  readonly lastRuns?: readonly LastRun[];
}

/** A run or load during which a process ended before it could report the fault. */
export interface LastRun extends Omit<Strike, "at" | "host"> {
  readonly model: Pick<ModelSpec, "name" | "number">;
  /** Called once the fault is recorded, or the attempts to record it have failed. */
  readonly forget: () => void;
}
