import type { TuttiError } from "@tutti/protocol";
import type { Form } from "@tutti/wire";

/** What a function kept: only who runs functions reads it. */
export interface Kept {
  readonly value: unknown;
  /** What it takes of memory. */
  readonly bytes: number;
}

/**
 * One call of a pipeline's function. Tensors cross as messages (`application/vnd.tutti.tensor`), which any thread can
 * be handed.
 */
export interface StepCall {
  readonly pipeline: string;
  /** `./module.ts#name`, as declared. */
  readonly function: string;
  /** `requests`: of a stage; `answer`: the pipeline's. */
  readonly makes: "requests" | "answer";
  readonly app: string;
  /** The publisher's body, borrowed until `done`; after the first call as `read` gave it back. */
  readonly body: { readonly form: Form; readonly payload: Uint8Array };
  readonly id: string | undefined;
  readonly parameters: Readonly<Record<string, unknown>> | undefined;
  readonly stages: Readonly<Record<string, readonly Uint8Array[]>>;
  readonly kept: Readonly<Record<string, Kept>>;
}

export interface StepOutcome {
  /** One tensor message for each request; of an answer exactly one. Owned by the receiver. */
  readonly messages: readonly Uint8Array[];
  readonly keep: Kept | undefined;
  /**
   * What the body said. `payload` is there if its form was not binary: the same tensors as a message, so that nobody
   * reads it twice.
   */
  readonly read: {
    readonly id: string | undefined;
    readonly outputs: readonly string[] | undefined;
    readonly parameters: Readonly<Record<string, unknown>> | undefined;
    readonly payload: Uint8Array | undefined;
  };
}

/**
 * Runs the functions of pipelines beside an ingress. Whoever implements it bounds what waits (OVERLOADED), limits the
 * time of a call, and names the function in every error of its own.
 */
export interface Steps {
  /**
   * Calls back once, perhaps in the same turn.
   *
   * @returns gives the call up: nobody is called back any more
   */
  run(call: StepCall, done: (outcome: StepOutcome | TuttiError) => void): () => void;
}
