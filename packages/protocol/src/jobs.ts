/**
 * Background jobs: what stands on the durable queue, in the results' bucket and among the dead letters
 * (docs/jobs.md). A job is a request that waits until an accelerator has nothing else to do.
 */
import { type Micros, parseDuration } from "@tutti/units";
import { TuttiError } from "./errors.ts";
import { isName } from "./limits.ts";
import { HEADER } from "./subjects.ts";

/** `jobs.<model>.<app>`: a publisher to the queue, by JetStream. */
export const JOBS_SUBJECT = "jobs.*.*";
export const jobSubject = (model: string, app: string): string => `jobs.${model}.${app}`;
export const JOBS_STREAM = "tutti_jobs";

/** `deadjobs.<model>.<app>`: jobs that were given up, with their inputs and the reason. */
export const DEAD_JOBS_SUBJECT = "deadjobs.*.*";
export const deadJobSubject = (model: string, app: string): string => `deadjobs.${model}.${app}`;
export const DEAD_JOBS_STREAM = "tutti_dead_jobs";

/** The answers, as a KV bucket: `<app>.<model>.<id>`, in the form of the request, with the headers of an answer. */
export const RESULTS_BUCKET = "tutti_results";
export const RESULTS_STREAM = `KV_${RESULTS_BUCKET}`;
export const resultSubject = (app: string, model: string, id: string): string =>
  `$KV.${RESULTS_BUCKET}.${app}.${model}.${id}`;
/** Subject at which a result can be read: the permission to read one application's results is the prefix. */
export const resultReadSubject = (app: string, model: string, id: string): string =>
  `$JS.API.DIRECT.GET.${RESULTS_STREAM}.${resultSubject(app, model, id)}`;

export const JOB_HEADER = {
  /** The job's id where the message's own id can't be it: a requeued job's message has another one. */
  id: "Tutti-Job",
  /** Dead letters: the code and the reason of the last failure, and how often the job was tried. */
  deadCode: "Tutti-Dead-Code",
  deadReason: "Tutti-Dead-Reason",
  deadTries: "Tutti-Dead-Tries",
} as const;

/** Longest deadline of a job, and the deadline of one that has none. */
export const JOB_DEADLINE_US_MAX = 604_800_000_000;
/** Bytes that wait in the queue; beyond, a job is refused as OVERLOADED. */
export const JOBS_BYTES_MAX = 1_073_741_824;
/** Bytes of results that are kept; beyond, jobs wait until older ones have ended. */
export const JOB_RESULTS_BYTES_MAX = 1_073_741_824;
/** Bytes of dead letters that are kept; beyond, jobs that fail stay in the queue. */
export const DEAD_JOBS_BYTES_MAX = 268_435_456;
/** A second message of the same id is dropped within this time, and within it only. */
export const JOB_DUPLICATE_US_MAX = 600_000_000;

/** An id is a token of a subject, as the names of models and applications are. */
export const isJobId = isName;

/** A job's id: of its header, or of its message; a message without any goes by its number in the queue. */
export function jobIdOf(header: (name: string) => string | undefined, seq: number): string | undefined {
  const id = header(JOB_HEADER.id) ?? header(HEADER.messageId) ?? `seq-${seq}`;
  return isJobId(id) ? id : undefined;
}

/**
 * How long a job may take from its submission: `Tutti-Slo`, as requests have it.
 *
 * @throws {TuttiError} INVALID_INPUT
 */
export function jobDeadline(text: string | undefined): Micros {
  if (text === undefined) return JOB_DEADLINE_US_MAX as Micros;
  const deadline = parseDuration(text);
  if (deadline === undefined || deadline === 0)
    throw new TuttiError("TUTTI_INVALID_INPUT", `"${text.slice(0, 64)}" is no deadline of a job: write 30m or 2h`);
  if (deadline > JOB_DEADLINE_US_MAX)
    throw new TuttiError("TUTTI_INVALID_INPUT", `a job's deadline is at most 7 days (168h), not ${text.slice(0, 64)}`);
  return deadline;
}
