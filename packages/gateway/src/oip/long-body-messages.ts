import type { AnswerHead } from "./infer-answer.ts";
import type { InferHead } from "./infer-head.ts";

export type ToBodyWorker = { readonly json: Uint8Array } | { readonly answer: AnswerHead };
export type FromBodyWorker = { readonly head: InferHead } | { readonly written: Uint8Array };
