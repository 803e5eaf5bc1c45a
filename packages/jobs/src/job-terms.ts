import type { QueuedJob } from "@tutti/ports/jobs";
import { HEADER, JOB_HEADER, TuttiError, isJobId, isModelName, isName, jobDeadline } from "@tutti/protocol";

/** A job as its message in the queue says it. The intake has checked it; a message may also be an operator's own. */
export interface JobTerms {
  readonly model: string;
  readonly app: string;
  readonly id: string;
  /** Milliseconds since 1970, by the queue's clock. */
  readonly deadlineAtMs: number;
  /** Headers of the request that the job becomes. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A job whose message is unusable, with as much of its name as can be used for its result. */
export interface UnusableJob {
  readonly error: TuttiError;
  readonly model: string;
  readonly app: string;
  readonly id: string;
}

/** Headers of a job that its request has too. */
export const REQUEST_HEADERS: readonly string[] = [
  ...[HEADER.contentType, HEADER.accept, HEADER.outputs, HEADER.version, HEADER.size, HEADER.priority],
  ...[HEADER.traceparent, HEADER.tracestate],
];

export function readTerms(
  job: Pick<QueuedJob, "subject" | "headers" | "seq" | "submittedAtMs">,
): JobTerms | UnusableJob {
  const headers = new Map(Object.entries(job.headers));
  const [, model = "", app = ""] = job.subject.split(".");
  const id = headers.get(JOB_HEADER.id) ?? "";
  const named = { model, app, id: isJobId(id) ? id : `seq-${job.seq}` };
  if (!isModelName(model) || !isName(app))
    return { ...named, error: invalid(`${job.subject}: names are letters, digits, "-" and "_" only`) };
  if (!isJobId(id))
    return { ...named, error: invalid(`${JOB_HEADER.id}: an id has up to 64 letters, digits, "-" and "_"`) };
  try {
    const deadlineAtMs = job.submittedAtMs + jobDeadline(headers.get(HEADER.slo)) / 1_000;
    const forwarded = REQUEST_HEADERS.flatMap((name) => {
      const value = headers.get(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    return { ...named, id, deadlineAtMs, headers: { ...Object.fromEntries(forwarded), [HEADER.messageId]: id } };
  } catch (error) {
    if (error instanceof TuttiError) return { ...named, error };
    throw error;
  }
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
