import type { ErrorCode } from "@tutti/protocol";
import type { StepCall, StepOutcome } from "@tutti/ports/steps";

/** Start-up data of a worker. Modules of pipelines are looked for below this folder, and nowhere else. */
export interface WorkerStart {
  readonly folder: string;
  /** Loaded before the first call: `./module.ts#name`. */
  readonly functions: readonly string[];
}
export type ToWorker =
  | { readonly id: number; readonly call: StepCall }
  /** Nobody waits for this call any more: its function may end early. */
  | { readonly givenUp: number };
/** A function that can't be loaded. */
export interface StepProblem {
  readonly function: string;
  readonly text: string;
}
/** A reply of a worker. Errors cross threads by code and text: a class does not survive the transfer. */
export type FromWorker =
  | { readonly id: number; readonly outcome: StepOutcome }
  | { readonly id: number; readonly code: ErrorCode; readonly text: string }
  | { readonly loaded: true }
  | { readonly loaded: false; readonly problems: readonly StepProblem[] };
