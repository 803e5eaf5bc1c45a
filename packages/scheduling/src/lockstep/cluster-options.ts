import type { LatencyTable } from "@tutti/profile";
import type { GpuId, Instant, Micros } from "@tutti/units";
import type { DispatchedBatch, RefusalCause, Request } from "../messages.ts";
import type { ModelThreadConfig } from "../model-thread/model-thread-state.ts";

/** Listener for events. It may keep batches and requests. */
export interface ClusterListener {
  dispatched?(batch: DispatchedBatch, at: Instant): void;
  refused?(request: Request, cause: RefusalCause, at: Instant): void;
  finished?(batch: DispatchedBatch, begin: Instant, end: Instant): void;
}

export interface ClusterOptions {
  /** Configurations of the models, which may be equal but for `thread`; at least one. */
  readonly models: readonly ModelThreadConfig[];
  readonly gpus: number;
  readonly ctrl?: Micros;
  readonly listener?: ClusterListener;
  /** Real duration of a batch; the expected one when left out. */
  readonly runTime?: (batch: DispatchedBatch, begin: Instant) => Micros;
  /** Time from now until the executor of a batch that is sent now could start it. Default: as planned. */
  readonly startDelay?: (batch: DispatchedBatch) => Micros;
  /**
   * When the schedulers handle what happens at a moment: later while they stand still. It never falls, and what is
   * handled at that moment waits no longer. Default: at once.
   */
  readonly heardAt?: (at: Instant) => Instant;
  /** Latencies of a model, by its index, on an accelerator where they are its own. Default: as planned. */
  readonly ownProfile?: (model: number, gpu: GpuId) => LatencyTable | undefined;
  /** Number of an accelerator's type, as in the models' `unfit`. Default: all are of one. */
  readonly typeOf?: (gpu: GpuId) => number;
  /** Reports every offer to the ranker at once, not only those that are due. It changes no decision. */
  readonly tellsAll?: boolean;
}

/** Requests in advance, model by model, each model's in the order of arrival. */
export interface ArrivalSlice {
  /** Requests; there may be more after the last model's end, which are ignored. */
  readonly requests: ArrayLike<Request>;
  /** By model: the end of its requests, which begin where the previous model's end. */
  readonly ends: Uint32Array;
  /** All of them come before that moment, and all later requests come at it or after it. */
  readonly until: Instant;
}
