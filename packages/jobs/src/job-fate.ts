import { type ErrorCode, type TuttiError } from "@tutti/protocol";

/** The decision about a job whose request was refused. */
export type JobFate = { readonly kind: "again"; readonly afterMs: number } | { readonly kind: "dead" };

/**
 * Tries of a job that failed, or whose model nobody knows: it may be a moment's fault, and no more is worth its time.
 */
export const FAILED_TRIES_MAX = 5;
/** Tries of a job that no fault of its own keeps from an answer: executors die, or no ingress is there. */
export const JOB_TRIES_MAX = 100;

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/** Refusals of jobs that did not run: they wait as long as their deadlines allow. */
const NEVER_RAN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "TUTTI_OVERLOADED",
  "TUTTI_QUOTA_EXCEEDED",
  "TUTTI_NOT_READY",
]);
/** Final answers that may still be another's fault: the model is loaded in a moment, or an executor was broken. */
const PERHAPS: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["TUTTI_NOT_FOUND", "TUTTI_NOT_READY", "TUTTI_INTERNAL"]);

/**
 * Decides by the refusal alone, so that every runner decides alike.
 *
 * @param tries - deliveries of the job so far, this one included
 * @param leftMs - until the job's deadline
 */
export function fateOf(
  error: TuttiError,
  { tries, leftMs }: { readonly tries: number; readonly leftMs: number },
): JobFate {
  const afterMs = Math.max(
    Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 16), LONGEST_PAUSE_MS),
    error.retryAfterMs ?? 0,
  );
  if (leftMs <= 0) return { kind: "dead" };
  if (tries >= triesMax(error)) return { kind: "dead" };
  // The deadline has the last word: the next delivery finds it passed.
  return { kind: "again", afterMs: Math.min(afterMs, leftMs) };
}

function triesMax({ code, retryable }: TuttiError): number {
  if (!retryable) return PERHAPS.has(code) ? FAILED_TRIES_MAX : 1;
  return NEVER_RAN.has(code) ? Infinity : JOB_TRIES_MAX;
}
