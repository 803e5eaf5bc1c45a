/** What an executor is given. */
import type { Engine } from "@tutti/ports/engine";
import type { ModelSpec, Strike } from "@tutti/protocol";
import type { DataClient } from "@tutti/ports/pull";
import type { GpuId, Micros } from "@tutti/units";
import type { ActorConfig, ActorPorts } from "../ports.ts";

export interface ExecutorConfig extends ActorConfig {
  /** Accepted and unfinished batches per accelerator; a ranker that knows our free time never needs more than two. */
  readonly acceptedMax?: number;
  /**
   * How long a drain, or one that leaves its sub-cluster, waits for batches whose grants were on the way when it began.
   * Default: 250 ms.
   */
  readonly lingerFor?: Micros;
  /** How long a model that has left its sub-cluster is kept. Default: 1 s. */
  readonly keptFor?: Micros;
  /** Where it belongs as long as nobody has planned. Default: `main`. */
  readonly subCluster?: string;
  /** Of the weights of its models together, on each of its accelerators. Default: unbounded. */
  readonly memoryBytesMax?: number;
  /** Of an accelerator's time, at most, for running requests again alone (docs/algorithms.md, B9). Default: 0.05. */
  readonly aloneShare?: number;
}
export interface ExecutorPorts extends ActorPorts {
  readonly data: DataClient;
  readonly engines: readonly { readonly gpu: GpuId; readonly engine: Engine }[];
  /** The engine is unusable: the process must end, and be started again. */
  readonly onFault: (reason: string) => void;
  /**
   * It takes another's place on its accelerators: it is ready when it could serve, and serves once `release` is called.
   */
  readonly held?: (release: () => void) => void;
  /** What earlier processes of these accelerators were doing when they ended without a word. */
  readonly lastRuns?: readonly LastRun[];
}

/** A run or load in which a process ended that could not say so any more. */
export interface LastRun extends Omit<Strike, "at" | "host"> {
  readonly model: Pick<ModelSpec, "name" | "number">;
  /** It is written down. */
  readonly forget: () => void;
}
