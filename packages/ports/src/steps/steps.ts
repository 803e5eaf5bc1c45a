import type { TuttiError } from "@tutti/protocol";
import type { Form } from "@tutti/wire";

/** A value that a function kept. Only the implementation that runs functions reads it. */
export interface Kept {
  readonly value: unknown;
  /** Memory of the value, bytes. */
  readonly bytes: number;
}

/**
 * One call of a pipeline's function. Tensors cross as messages (`application/vnd.tutti.tensor`), which can be passed to
 * any thread.
 */
export interface StepCall {
  readonly pipeline: string;
  /** `./module.ts#name`, as declared. */
  readonly function: string;
  /** `requests`: the requests of a stage; `answer`: the pipeline's answer. */
  readonly makes: "requests" | "answer";
  readonly app: string;
  /** The publisher's body, borrowed until `done`. After the first call, it is what `read` returned. */
  readonly body: { readonly form: Form; readonly payload: Uint8Array };
  readonly id: string | undefined;
  readonly parameters: Readonly<Record<string, unknown>> | undefined;
  readonly stages: Readonly<Record<string, readonly Uint8Array[]>>;
  readonly kept: Readonly<Record<string, Kept>>;
}

export interface StepOutcome {
  /** One tensor message for each request; an answer has exactly one. Owned by the receiver. */
  readonly messages: readonly Uint8Array[];
  readonly keep: Kept | undefined;
  /**
   * The decoded body. If its form was not binary, `payload` holds the same tensors as a message, so that the body is
   * decoded only once.
   */
  readonly read: {
    readonly id: string | undefined;
    readonly outputs: readonly string[] | undefined;
    readonly parameters: Readonly<Record<string, unknown>> | undefined;
    readonly payload: Uint8Array | undefined;
  };
}

/**
 * Runs the functions of pipelines beside an ingress. An implementation bounds its queue (OVERLOADED), limits the time
 * of a call, and names the function in every error of its own.
 */
export interface Steps {
  /**
   * Calls back once, perhaps in the same turn.
   *
   * @returns a function that abandons the call; `done` is then never called
   */
  run(call: StepCall, done: (outcome: StepOutcome | TuttiError) => void): () => void;
}
