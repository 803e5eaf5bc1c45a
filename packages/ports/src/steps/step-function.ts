import type { Tensors } from "./step-tensors.ts";

/** The publisher's request without its tensors. */
export interface StepRequest {
  readonly pipeline: string;
  readonly app: string;
  /** The publisher's own id, if its body has one. */
  readonly id?: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Argument of a function. The tensors belong to the function: it may write into them. */
export interface StepInput {
  /** Tensors that the publisher sent. */
  readonly input: Tensors;
  /**
   * Outputs of every stage that has already ended: one set per request, in the order of the requests. Empty where a
   * filter let nothing through.
   */
  readonly stages: Readonly<Record<string, readonly Tensors[]>>;
  /** Values that the functions of earlier stages kept, by stage. */
  readonly kept: Readonly<Record<string, unknown>>;
  readonly request: StepRequest;
  /** Aborts when nobody waits for the result any more. Undefined where a call can't be given up. */
  readonly signal?: AbortSignal;
}

/** One request of a stage, or a list of them (fan-out). An empty list is a filter that let nothing through. */
export type StageRequests = Tensors | readonly Tensors[];
/**
 * Requests with a value to keep for later steps, which read it as `kept.<stage>`. The value may be anything that can be
 * cloned (structured clone).
 */
export interface StageRequestsKept {
  readonly requests: StageRequests;
  readonly keep?: unknown;
}

/**
 * `before` of a stage. An error whose `code` is TUTTI_INVALID_INPUT tells the publisher that its input is wrong; any
 * other is the function's fault.
 */
export type StageFunction = (
  step: StepInput,
) => StageRequests | StageRequestsKept | Promise<StageRequests | StageRequestsKept>;
/** `finish` of a pipeline: the tensors of its answer. */
export type FinishFunction = (step: StepInput) => Tensors | Promise<Tensors>;
