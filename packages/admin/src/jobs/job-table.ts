import type { DeadJob, ModelBacklog } from "@tutti/ports/jobs";
import { JOB_HEADER, jobsEndInS } from "@tutti/protocol";
import { renderTable } from "../table.ts";

/** One model's jobs, as `tutti jobs --json` prints them. */
export interface JobRow {
  readonly model: string;
  /** Jobs in the queue that no runner holds. */
  readonly waiting: number;
  readonly inFlight: number;
  /** Jobs done a second, lately. */
  readonly rate: number;
  /** Seconds until the queue is empty at this rate; null: nothing moves. */
  readonly endsInS: number | null;
  readonly dead: number;
}

export interface JobReading {
  readonly backlogs: ReadonlyMap<string, ModelBacklog>;
  readonly rates: ReadonlyMap<string, number>;
  readonly dead: ReadonlyMap<string, number>;
}

export function jobRows({ backlogs, rates, dead }: JobReading): JobRow[] {
  const models = [...new Set([...backlogs.keys(), ...dead.keys()])].sort();
  return models.map((model) => {
    const { queued, inFlight } = backlogs.get(model) ?? { queued: 0, inFlight: 0 };
    const rate = rates.get(model) ?? 0;
    return {
      model,
      waiting: Math.max(0, queued - inFlight),
      inFlight,
      rate: Number(rate.toFixed(2)),
      endsInS: jobsEndInS(queued, rate),
      dead: dead.get(model) ?? 0,
    };
  });
}

export function renderJobs(rows: readonly JobRow[], runners: number, now: Date): string {
  const table = renderTable(
    ["model", "waiting", "in flight", "done/s", "expected end", "dead letters"],
    rows.map(({ model, waiting, inFlight, rate, endsInS, dead }) => [
      model,
      String(waiting),
      String(inFlight),
      rate.toFixed(1),
      endText(endsInS, now),
      String(dead),
    ]),
  );
  const lines = [rows.length === 0 ? "no jobs" : table];
  if (runners === 0) lines.push("no job runner was heard: each node has one (`tutti up`, `tutti run node`)");
  if (rows.some(({ dead }) => dead > 0)) lines.push("`tutti jobs dead` says why jobs were given up");
  return lines.join("\n");
}

function endText(endsInS: number | null, now: Date): string {
  if (endsInS === null) return "not at this rate";
  if (endsInS === 0) return "-";
  const end = new Date(now.getTime() + endsInS * 1_000);
  const at = endsInS < 86_400 ? end.toTimeString().slice(0, 5) : end.toISOString().slice(0, 16).replace("T", " ");
  return `in ${durationText(endsInS)} (${at})`;
}

export function durationText(seconds: number): string {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  return seconds < 6_000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`;
}

/** A dead letter, as `tutti jobs dead --json` prints it. */
export interface DeadRow {
  readonly seq: number;
  readonly model: string;
  readonly app: string;
  readonly id: string;
  readonly diedAt: string;
  readonly code: string;
  readonly tries: number;
  readonly reason: string;
}

/** Headers are from outside: a letter may have been put there by hand. */
export function deadRow({ seq, subject, headers, diedAtMs }: DeadJob): DeadRow {
  const known = new Map(Object.entries(headers));
  const [, model = "", app = ""] = subject.split(".");
  return {
    seq,
    model,
    app,
    id: known.get(JOB_HEADER.id) ?? "",
    diedAt: new Date(diedAtMs).toISOString(),
    code: known.get(JOB_HEADER.deadCode) ?? "",
    tries: Number(known.get(JOB_HEADER.deadTries) ?? 0),
    reason: known.get(JOB_HEADER.deadReason) ?? "",
  };
}

export const renderDead = (rows: readonly DeadRow[]): string =>
  rows.length === 0
    ? "no dead letters"
    : renderTable(
        ["model", "app", "id", "died", "tries", "code", "reason"],
        rows.map(({ model, app, id, diedAt, tries, code, reason }) => [
          ...[model, app, id, diedAt.slice(0, 19).replace("T", " ")],
          ...[String(tries), code, reason],
        ]),
      );
