import type { QueuedJob } from "@tutti/ports/jobs";
import { HEADER, TuttiError, isModelName, isName, jobDeadline, jobIdOf } from "@tutti/protocol";

/** A job as its message says it, checked: it came from outside. */
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

const FORWARDED: readonly string[] = [
  ...[HEADER.contentType, HEADER.accept, HEADER.outputs, HEADER.version, HEADER.size, HEADER.priority],
  ...[HEADER.traceparent, HEADER.tracestate],
];

export function readTerms(
  job: Pick<QueuedJob, "subject" | "headers" | "seq" | "submittedAtMs">,
): JobTerms | UnusableJob {
  const headers = new Map(Object.entries(job.headers));
  const [, model = "", app = ""] = job.subject.split(".");
  const id = jobIdOf((name) => headers.get(name), job.seq);
  const named = { model, app, id: id ?? `seq-${job.seq}` };
  if (!isModelName(model) || !isName(app))
    return { ...named, error: invalid(`${job.subject}: names are letters, digits, "-" and "_" only`) };
  if (id === undefined)
    return { ...named, error: invalid(`${HEADER.messageId}: an id has up to 64 letters, digits, "-" and "_"`) };
  try {
    const deadlineAtMs = job.submittedAtMs + jobDeadline(headers.get(HEADER.slo)) / 1_000;
    const forwarded = FORWARDED.flatMap((name) => {
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
