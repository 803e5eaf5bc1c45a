/** Configuration and ports of an ingress. */
import type { Decoder } from "@tutti/ports/decode";
import type { DataHandlers } from "@tutti/ports/pull";
import type { Micros } from "@tutti/units";
import type { ActorConfig, ActorPorts } from "@tutti/actors/runtime";
import type { ServedData } from "./inputs/batch-carrier.ts";
import type { ServedPipelines } from "./pipelines/pipeline-runner.ts";
import type { Warmup } from "./warm-up.ts";

export interface IngressConfig extends ActorConfig {
  /** `app`: replies must lie below the application's own inbox prefix; `any`: development on loopback. */
  readonly replyScope: "app" | "any";
  /** Lower bound of d_resp, the time from the end of a batch's run to the answer. */
  readonly respondFloor: Micros;
  /** Bounds of the warm-up requests that it may send when it starts (WarmUp). */
  readonly warmup?: Warmup;
  readonly requestsMax?: number;
  readonly bytesMax?: number;
  readonly appRequestsMax?: number;
  readonly appBytesMax?: number;
}

export interface IngressPorts extends ActorPorts {
  readonly decoder?: Decoder;
  /** Pipelines served beside models, under names of the same kind. */
  readonly pipelines?: ServedPipelines;
  /** Starts the data plane's servers on these handlers. */
  readonly serveData: (handlers: DataHandlers) => ServedData;
}
