import type { AnswerHead } from "./infer-answer.ts";
import type { InferHead } from "./infer-head.ts";
import type { TensorMetadata } from "./model-descriptions.ts";

export type ToBodyWorker = LongHead | { readonly answer: AnswerHead };
export interface LongHead {
  readonly json: Uint8Array;
  /** The model's inputs, where the body is one of V1. */
  readonly predict?: readonly TensorMetadata[] | undefined;
}
export type FromBodyWorker = { readonly head: InferHead } | { readonly written: Uint8Array };
