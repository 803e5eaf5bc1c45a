/**
 * Background jobs: what stands on the durable queue, in the results' bucket and among the dead letters
 * (docs/jobs.md). A job is a request that waits until an accelerator has nothing else to do.
 */
import { type Micros, assert, parseDuration } from "@tutti/units";
import { type ErrorCode, TuttiError } from "../errors.ts";
import { HEADER_BYTES_MAX, OUR_PAYLOAD_BYTES_MAX, REQUEST_BYTES_MAX, isName } from "../limits.ts";
import { HEADER } from "../subjects.ts";

/**
 * `jobs.<model>.<app>`: a publisher to a job runner (queue group `jobs`), which checks the job and puts it into the
 * queue. JetStream doesn't listen here: it would send its receipt to any reply subject, also into another's inbox or a
 * bucket.
 */
export const JOBS_SUBJECT = "jobs.*.*";
export const jobSubject = (model: string, app: string): string => `jobs.${model}.${app}`;
/** `jobresults.<model>.<app>`: a publisher asks a job runner for a result; the payload is the job's id. */
export const JOB_RESULTS_SUBJECT = "jobresults.*.*";
export const jobResultsSubject = (model: string, app: string): string => `jobresults.${model}.${app}`;
/** Queue group of the job runners on both. */
export const JOBS_QUEUE = "jobs";

/**
 * `jobqueue.<model>.<app>.<size class>`: a job runner to the durable queue, by JetStream. JetStream counts messages by
 * subject and not their bytes, so the subject says how large the message is.
 */
export const QUEUED_JOBS_SUBJECT = "jobqueue.*.*.*";
export const queuedJobSubject = (model: string, app: string, bytes: number): string =>
  `jobqueue.${model}.${app}.${sizeClass(bytes)}`;
/** All jobs of a model in the queue. */
export const queuedJobsOf = (model: string): string => `jobqueue.${model}.*.*`;
export const JOBS_STREAM = "tutti_jobs";

/** `deadjobs.<model>.<app>.<code>.<size class>`: jobs that were given up, with their inputs and the reason. */
export const DEAD_JOBS_SUBJECT = "deadjobs.*.*.*.*";
export const deadJobSubject = (
  model: string,
  app: string,
  { code, bytes }: { readonly code: ErrorCode; readonly bytes: number },
): string => `deadjobs.${model}.${app}.${code.slice("TUTTI_".length)}.${sizeClass(bytes)}`;
export const DEAD_JOBS_STREAM = "tutti_dead_jobs";

/**
 * `jobuses.<app>.<size class>`: an empty message for the results that a runner has stored since its last one. The
 * stream forgets them as old as results are forgotten, so that its counts say what an application's results take.
 */
export const JOB_USES_SUBJECT = "jobuses.*.*";
export const jobUseSubject = (app: string, bytes: number): string => `jobuses.${app}.${sizeClass(bytes)}`;
export const JOB_USES_STREAM = "tutti_job_uses";

const CLASSES_PER_OCTAVE = 4;
/** Size class of a message; its bytes are rounded up by 19 % at most. */
export const sizeClass = (bytes: number): number => Math.ceil(CLASSES_PER_OCTAVE * Math.log2(Math.max(1, bytes)));
/** Bytes of a message of this class at most; 0 for a subject without one. */
export const sizeClassBytes = (token: string): number =>
  /^\d{1,3}$/.test(token) ? 2 ** (Number(token) / CLASSES_PER_OCTAVE) : 0;

/** The answers, as a KV bucket: `<app>.<model>.<id>`, in the form of the request, with the headers of an answer. */
export const RESULTS_BUCKET = "tutti_results";
export const RESULTS_STREAM = `KV_${RESULTS_BUCKET}`;
export const resultSubject = (app: string, model: string, id: string): string =>
  `$KV.${RESULTS_BUCKET}.${app}.${model}.${id}`;
export const JOB_HEADER = {
  /** The job's id. Not `Tutti-Job`, which a request has that is a job. */
  id: "Tutti-Job-Id",
  /** Answers to reads of a result: its number in the bucket. Of a result that isn't there: none. */
  revision: "Tutti-Job-Revision",
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
/** Bytes of the messages that say what results take; beyond, the oldest are forgotten before their results are. */
export const JOB_USES_BYTES_MAX = 67_108_864;
/** Most bytes of headers that a dead letter has and its job does not. */
const LETTER_BYTES = 4_096;
/** Bytes of one job, headers included: those of a request. Beyond, TOO_LARGE. */
export const JOB_BYTES_MAX = 4_259_840;
assert(JOB_BYTES_MAX === REQUEST_BYTES_MAX + HEADER_BYTES_MAX, "a job is a request");
assert(JOB_BYTES_MAX + LETTER_BYTES < OUR_PAYLOAD_BYTES_MAX, "a dead letter fits in one message");
/** The same on a server with this `max_payload`: what is taken can also become a dead letter. */
export const jobBytesMax = (payloadMax: number): number => Math.min(JOB_BYTES_MAX, payloadMax - LETTER_BYTES);
/** A second message of the same job is dropped within this time, and within it only. */
export const JOB_DUPLICATE_US_MAX = 600_000_000;

/** An id is a token of a subject, as the names of models and applications are. */
export const isJobId = isName;

/** The id that a publisher gave its job, in a header of its own or as the message's id; perhaps none. */
export const givenJobId = (header: (name: string) => string | undefined): string | undefined =>
  header(JOB_HEADER.id) ?? header(HEADER.messageId);

/** A job runner's answer to a job: it is in the queue, on disk. */
export interface JobReceipt {
  readonly id: string;
  /** The queue has this job already, and dropped this message. */
  readonly duplicate: boolean;
  /** The job had failed before, and runs again: results with lower numbers are of the earlier run. */
  readonly revision?: number;
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
