import type { ErrorCode } from "@tutti/protocol";
import type { AnswerHead } from "./infer-answer.ts";
import type { InferHead } from "./infer-head.ts";

export type ToBodyWorker = { readonly id: number } & ({ readonly json: Uint8Array } | { readonly answer: AnswerHead });
/** Errors cross threads as what they say: a class does not survive the journey. */
export type FromBodyWorker = { readonly id: number } & (
  { readonly head: InferHead } | { readonly written: Uint8Array } | { readonly code: ErrorCode; readonly text: string }
);
