import type { DecodeJob, Decoded } from "@tutti/decode";
import type { ErrorCode } from "@tutti/protocol";

export interface ToWorker {
  readonly id: number;
  readonly job: DecodeJob;
}
/** Errors cross threads as what they say: a class does not survive the journey. */
export type FromWorker = { readonly id: number } & (
  { readonly decoded: Decoded } | { readonly code: ErrorCode; readonly text: string }
);
