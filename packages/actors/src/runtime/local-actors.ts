/** Interfaces through which actors of one process reach each other without messages. */
import type { BatchDispatched, CostOffset, Tensor, TuttiError } from "@tutti/protocol";
import type { ActorKey, Instant, Micros } from "@tutti/units";

/**
 * Sends batches of this process' batcher together with their rows, as if their executor had pulled them already (T2).
 */
export interface BatchCarrier {
  readonly ingress: ActorKey;
  /** False if the executor had better pull the rows of these requests. */
  takes(requests: readonly { readonly seq: number }[]): boolean;
  /** Token for a batch that will be carried, which nobody can guess. */
  newToken(): Uint8Array;
  /** @param batch - with such a token @returns false if it could not be sent, so that the executor must pull */
  carry(batch: BatchDispatched, batcher: ActorKey): boolean;
}

/** A request of the gateway in this process, which has already read and checked its terms and tensors. */
export interface LocalRequest {
  readonly target: string;
  readonly app: string;
  /** Ownership passes with the request: the caller doesn't change them any more. */
  readonly tensors: readonly Tensor[];
  readonly version: string | undefined;
  readonly id: string | undefined;
  /** Undefined: the model's own. */
  readonly slo: Micros | undefined;
  /** Costs of a late answer; the first step is at the SLO. */
  readonly costs?: readonly CostOffset[] | undefined;
  readonly priority: number | undefined;
  readonly size: number | undefined;
  readonly wanted: readonly string[] | undefined;
  readonly traceparent: string | undefined;
  /** Whether it is a job (docs/algorithms.md, A13), which gets time that no request needs. Default: a request. */
  readonly isJob?: boolean;
  /** When its first byte came. Default: now. */
  readonly arrivedAt?: Instant;
  /** Why it can't be asked for: it is counted and listed as refused, and goes no further. */
  readonly refusal?: TuttiError;
}

export interface LocalAnswer {
  readonly outputs: readonly Tensor[];
  readonly version: string;
  /** Number of requests in its batch. */
  readonly batchSize: number | undefined;
  /** From its arrival to the start of its run, by the clocks of ingress and executor. */
  readonly queueUs: Micros | undefined;
}

export interface LocalCall {
  /** Cancels the call: the request does not run if it has not begun. */
  cancel(): void;
}

/** Interface of an ingress for the gateway of its process. */
export interface LocalIngress {
  /**
   * @param done - called once, perhaps before this returns
   * @returns undefined if the request must go as a message, because its target is a pipeline
   */
  ask(request: LocalRequest, done: (outcome: LocalAnswer | TuttiError) => void): LocalCall | undefined;
}
