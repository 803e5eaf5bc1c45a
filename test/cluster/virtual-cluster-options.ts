import type { BatcherConfig } from "@tutti/actors";
import type { ServedPipelines } from "@tutti/ingress";
import type { EmulatedFault, Engine, EngineBatch } from "@tutti/ports/engine";
import type { Telemetry } from "@tutti/ports/telemetry";
import type { Policy } from "@tutti/scheduling";
import type { GpuId, Instant, Micros } from "@tutti/units";
import type { Difference } from "./other-release.ts";

export interface VirtualClusterOptions {
  readonly seed?: number;
  /** Whether each reading of the clock is later than the one before, as in production. Default: as VirtualClock's. */
  readonly moves?: boolean;
  readonly gpus?: number;
  readonly executors?: number;
  /** Rankers of each sub-cluster. */
  readonly rankers?: number;
  /** Default: `main` alone. */
  readonly subClusters?: readonly string[];
  /** Memory of each accelerator for the weights of its models together. Default: unbounded. */
  readonly memoryBytesMax?: number;
  readonly batchers?: number;
  readonly policy?: Policy;
  /** Delay of each message, one way. */
  readonly hop?: Micros;
  /** Delay of each message on the data plane. */
  readonly dataHop?: Micros;
  readonly delayFloors?: BatcherConfig["delayFloors"];
  readonly respondFloor?: Micros;
  /** Bounds on pending requests of the ingress. Default: production's. */
  readonly held?: { readonly requestsMax?: number; readonly appRequestsMax?: number; readonly appBytesMax?: number };
  /** Pipelines that every ingress serves. */
  readonly pipelines?: ServedPipelines;
  readonly gatherFor?: Micros;
  readonly fault?: (gpu: number, runs: number, batch: EngineBatch) => EmulatedFault | undefined;
  /** Wraps the engine between an executor and its accelerators. */
  readonly wrapEngine?: (engine: Engine, gpu: GpuId) => Engine;
  /** Delay until an executor with an unusable engine is started again. Default: never. */
  readonly restartAfter?: Micros;
  /** Whether messages on a subject are lost. */
  readonly loses?: (subject: string) => boolean;
  /** Share of accelerator time for isolated runs. Default: production's. */
  readonly aloneShare?: number;
  /** How long isolated run times count: once to twice this window. */
  readonly timesWindow?: Micros;
  /** Latencies that batchers plan with. Default: production's. */
  readonly latency?: NonNullable<BatcherConfig["latency"]>;
  /** Processes of another release, by name, and how it differs. Default: all are of today's. */
  readonly otherRelease?: (name: string) => Difference | undefined;
  /** Telemetry of each process, by its name. Default: none. */
  readonly telemetry?: (name: string) => Telemetry;
  /** Real run times as a multiple of what the profile says. */
  readonly runTimes?: () => number;
  /** Bytes that a run takes besides the weights. Default: unknown. */
  readonly runBytes?: (model: string, batchSize: number) => number;
  /** Share of its time for which a ranker is busy, by its process. Default: no ranker reports it. */
  readonly rankerBusy?: (name: string) => number;
}

export interface Outcome {
  readonly status: "ok" | string;
  readonly at: Instant;
  readonly value: number;
  readonly text: string;
  readonly retryAfterMs?: number;
  readonly version?: string;
}

/** One request as its publisher saw it; T1 says that `outcomes` has exactly one member in the end. */
export interface Asked {
  readonly at: Instant;
  readonly deadline: Instant;
  readonly value: number;
  readonly reply: string;
  readonly outcomes: Outcome[];
}
