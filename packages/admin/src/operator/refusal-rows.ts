/** Requests that were refused or answered late, as rows and as a table. */
import { LATE, type RefusalsTold, type RefusedRequest } from "@tutti/protocol";
import { type Micros, actorToken, formatDuration, printable } from "@tutti/units";
import { renderTable } from "../table.ts";
import { NOT_KEPT, leastSlo, refusalSentences } from "./refusal-sentences.ts";

/** Actors are tokens, as in `tutti actors`; times are in µs, moments since the Unix epoch. */
export interface RefusalRow {
  /** The value for `--request`: the publisher's id or trace, else its number at its ingress. */
  readonly id: string;
  readonly at: number;
  readonly model: string;
  readonly version?: string | undefined;
  readonly pipeline?: string | undefined;
  readonly app: string;
  readonly messageId?: string | undefined;
  readonly bodyId?: string | undefined;
  readonly traceId?: string | undefined;
  readonly ingress: string;
  /** An error code, or LATE. */
  readonly cause: string;
  /** The text that the publisher got, or why it is not kept. */
  readonly reason?: string | undefined;
  readonly retryable?: boolean | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly by?: string | undefined;
  readonly actor?: string | undefined;
  readonly sloUs?: number | undefined;
  readonly waitedUs: number;
  readonly lateByUs?: number | undefined;
  /** At least this SLO would have been needed. */
  readonly feasibleUs?: number | undefined;
  readonly queue?: Omit<NonNullable<RefusedRequest["queue"]>, "alone"> & { readonly aloneUs: number };
  readonly batch?: Omit<NonNullable<RefusedRequest["batch"]>, "executor"> & { readonly executor: string };
  readonly pulledBy?: string | undefined;
  /** The same in sentences. */
  readonly explanation: readonly string[];
}

/** The newest requests of all answers. */
export function refusalRows(answers: readonly RefusalsTold[], most: number): RefusalRow[] {
  return answers
    .flatMap(({ ingress, requests }) => requests.map((request) => rowOf(request, actorToken(ingress))))
    .sort((a, b) => b.at - a.at)
    .slice(0, most);
}

function rowOf(request: RefusedRequest, ingress: string): RefusalRow {
  const { entry, at, waited, model, version, pipeline, app, messageId, bodyId, traceId } = request;
  const { slo, lateBy, refusal, queue, batch, pulledBy } = request;
  return {
    id: messageId ?? bodyId ?? traceId ?? `${ingress}.${entry}`,
    ...{ at, model, version, pipeline, app, messageId, bodyId, traceId, ingress },
    ...{ cause: refusal?.code ?? LATE, reason: refusal && (refusal.text ?? NOT_KEPT) },
    ...{ retryable: refusal?.retryable, retryAfterMs: refusal?.retryAfterMs, by: refusal?.by },
    actor: refusal === undefined ? undefined : actorToken(refusal.actor),
    ...{ sloUs: slo, waitedUs: waited, lateByUs: lateBy, feasibleUs: leastSlo(request) },
    ...(queue !== undefined && { queue: withAlone(queue) }),
    ...(batch !== undefined && { batch: { ...batch, executor: actorToken(batch.executor) } }),
    pulledBy: pulledBy === undefined ? undefined : actorToken(pulledBy),
    explanation: refusalSentences(request),
  };
}

const withAlone = ({ alone, ...queue }: NonNullable<RefusedRequest["queue"]>): NonNullable<RefusalRow["queue"]> => ({
  ...queue,
  aloneUs: alone,
});

/** One line for each request, the newest first. */
export function renderRefusals(rows: readonly RefusalRow[]): string {
  return renderTable(
    [
      "when (UTC)",
      "model",
      "application",
      "id",
      "cause",
      "by",
      "SLO",
      "waited",
      "needed",
      "queue",
      "waited for",
      "reason",
    ],
    rows.map((row) => [
      momentText(row.at),
      row.pipeline === undefined ? (row.version ?? row.model) : `${row.model} of ${row.pipeline}`,
      row.app,
      row.id,
      row.cause.replace("TUTTI_", ""),
      row.by ?? "-",
      duration(row.sloUs),
      duration(row.waitedUs),
      duration(row.feasibleUs),
      row.queue === undefined ? "-" : String(row.queue.queued),
      row.queue?.waitedFor ?? "-",
      row.reason ?? `${duration(row.lateByUs)} after its deadline`,
    ]),
  );
}

/** One request: what it was, and why it ended so. */
export function renderExplanation(row: RefusalRow): string {
  const { id, model, version, pipeline, app, traceId } = row;
  const of = `${version ?? model}${pipeline === undefined ? "" : ` (a stage of ${pipeline})`}`;
  const trace = traceId === undefined || traceId === id ? "" : `, trace ${traceId}`;
  const head = `${id}: ${app} asked ${of}, ended ${new Date(row.at / 1_000).toISOString()} at ingress ${row.ingress}${trace}`;
  return [head, ...row.explanation.map((sentence) => `  ${sentence}`)].map(printable).join("\n");
}

const momentText = (at: number): string => new Date(at / 1_000).toISOString().slice(5, 23).replace("T", " ");
const duration = (us: number | undefined): string => (us === undefined ? "-" : formatDuration(us as Micros));
