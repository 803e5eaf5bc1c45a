import type { Instant, Micros } from "@tutti/units";
import type { Tensor } from "./tensor.ts";

/** A publisher's decoded request, whatever its form was (JSON, msgpack, binary). */
export interface InferRequest {
  readonly id?: string;
  readonly inputs: readonly Tensor[];
  /** Names of the wanted outputs; all if absent. */
  readonly outputs?: readonly string[];
  readonly parameters?: Readonly<Record<string, unknown>>;
}

export interface InferAnswer {
  readonly model: string;
  readonly version: string;
  readonly id?: string;
  readonly outputs: readonly Tensor[];
}

/** One request of a batch as the data plane carries it from its ingress to the executor. */
export interface PulledItem {
  readonly seq: number;
  /** The row (rowLayout); undefined when the ingress no longer has the request: the batch then runs without it. */
  readonly row: Uint8Array | undefined;
  /** W3C trace context of a sampled request, else "". */
  readonly traceparent: string;
}

export interface PullRequest {
  readonly executor: number;
  readonly gpu: number;
  readonly thread: number;
  readonly batchId: number;
  readonly batcher: number;
  readonly token: Uint8Array;
  readonly seqs: readonly number[];
}

/**
 * The outcome of one request of a batch: its outputs as one binary tensor message, or an error. `TUTTI_UNAVAILABLE`:
 * its row came too late, the batch ran without it, and its ingress may have it run again.
 */
export interface ResultItem {
  readonly seq: number;
  /** `application/vnd.tutti.tensor`, batch axis 1. */
  readonly outputs: Uint8Array | undefined;
  readonly code: number;
  readonly text: string;
}

export interface ResultBatch {
  readonly executor: number;
  readonly gpu: number;
  readonly thread: number;
  readonly batchId: number;
  readonly batcher: number;
  readonly token: Uint8Array;
  readonly batchSize: number;
  readonly startedAt: Instant;
  readonly finishedAt: Instant;
  readonly run: Micros;
  readonly items: readonly ResultItem[];
  /** The context of the batch's span and its times, when tracing is on, for any tracer that can read it. */
  readonly trace?: string;
}
