import { type ErrorCode, type TuttiError } from "@tutti/protocol";

/** The decision about a job whose request was refused. */
export type JobFate = { readonly kind: "again"; readonly afterMs: number } | { readonly kind: "dead" };

/**
 * Failures of a job that ran, or whose model nobody knows: it may be a moment's fault, and no more is worth its time.
 */
export const FAILED_TRIES_MAX = 5;
/** Losses of a job on its way, as by no fault of its own: executors die, or no ingress is there. */
export const JOB_TRIES_MAX = 100;

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** Refusals of jobs that only waited, perhaps for days: requests left no accelerator time. */
const WAITED: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_OVERLOADED",
  "TUTTI_QUOTA_EXCEEDED",
  "TUTTI_NOT_READY",
]);
/** Final answers that may still be another's fault: the model is loaded in a moment, or an executor was broken. */
const PERHAPS: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["TUTTI_NOT_FOUND", "TUTTI_NOT_READY", "TUTTI_INTERNAL"]);

/** Whether the refusal counts against the job: one that only waited has failed at nothing. */
export const isFailure = ({ code, retryable }: TuttiError): boolean => !(retryable && WAITED.has(code));

/**
 * Decides by the refusal alone, so that every runner decides alike.
 *
 * @param tries - deliveries of the job so far, this one included: the pause grows with them
 * @param failures - refusals that count against the job (`isFailure`), this one included
 * @param leftMs - until the job's deadline
 */
export function fateOf(
  error: TuttiError,
  { tries, failures, leftMs }: { readonly tries: number; readonly failures: number; readonly leftMs: number },
): JobFate {
  const afterMs = Math.max(
    Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 16), LONGEST_PAUSE_MS),
    error.retryAfterMs ?? 0,
  );
  if (leftMs <= 0) return { kind: "dead" };
  if (isFailure(error) && failures >= failuresMax(error)) return { kind: "dead" };
  // The deadline has the last word: the next delivery finds it passed.
  return { kind: "again", afterMs: Math.min(afterMs, leftMs) };
}

function failuresMax({ code, retryable }: TuttiError): number {
  if (retryable) return JOB_TRIES_MAX;
  return PERHAPS.has(code) ? FAILED_TRIES_MAX : 1;
}
