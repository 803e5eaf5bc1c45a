/** `tutti refusals`: the latest requests that were refused or answered late, or why one of them was. */
import {
  ERROR_STATUS,
  LATE,
  REFUSALS_TOLD_MAX,
  REQUEST_ID_LENGTH_MAX,
  type RefusalsAsked,
  type RefusalsTold,
  isModelName,
  isName,
} from "@tutti/protocol";
import { type Instant, actorToken, instant, parseDuration } from "@tutti/units";
import type { Bus } from "@tutti/ports/bus";
import { withCluster } from "../cluster/connection.ts";
import type { ClusterOptions } from "../cluster/find-cluster.ts";
import { CommandError, EXIT, usageError } from "../failure.ts";
import { print } from "../print.ts";
import { didYouMean } from "../nearest.ts";
import { waitOption } from "../seconds-option.ts";
import { checkName } from "./asked-name.ts";
import { ClusterView } from "./cluster-view.ts";
import { type IngressAnswers, askIngresses } from "./ingress-questions.ts";
import { refusalRows, renderExplanation, renderRefusals } from "./refusal-rows.ts";

export interface RefusalsOptions extends ClusterOptions {
  readonly app?: string;
  readonly cause?: string;
  /** A duration. */
  readonly since?: string;
  readonly request?: string;
  readonly limit: string;
  /** Seconds. */
  readonly wait: string;
  readonly json?: boolean;
}

type Question = Omit<RefusalsAsked, "ask">;

/** @param model - also a version or a pipeline; undefined: any */
export function refusals(model: string | undefined, options: RefusalsOptions): Promise<void> {
  const question = questionOf(model, options, instant(Date.now() * 1_000));
  const waitMs = waitOption(options.wait);
  return withCluster({ ...options, name: "tutti-operator" }, async ({ control, store }, { cluster }) => {
    const told = await answersWithin(control, question, { cluster, waitMs });
    // Models that have left the cluster still have requests in the list.
    const hasNone = told.silent.length === 0 && told.answers.every(({ matching }) => matching === 0);
    if (model !== undefined && hasNone) await checkName(model, { bus: control, store, cluster, waitMs });
    tell(told, question, options.json === true);
  });
}

/** Asks the ingresses while it hears which there are. */
export async function answersWithin(
  bus: Bus,
  question: Question,
  { cluster, waitMs }: { readonly cluster: string; readonly waitMs: number },
): Promise<IngressAnswers> {
  const view = new ClusterView();
  const listening = view.listen(bus, cluster);
  try {
    return await askIngresses(bus, question, { cluster, view, waitMs });
  } finally {
    listening.stop();
  }
}

/** @throws {CommandError} usage: a flag's value is none */
export function questionOf(
  model: string | undefined,
  { app, cause, since, request, limit }: Pick<RefusalsOptions, "app" | "cause" | "since" | "request" | "limit">,
  now: Instant,
): Question {
  if (model !== undefined && !isModelName(model)) throw usageError(`${model} is no name of a model or a pipeline`);
  if (app !== undefined && !isName(app)) throw usageError(`--app ${app} is no name of an application`);
  const most = Number(limit);
  if (!Number.isInteger(most) || most < 1 || most > REFUSALS_TOLD_MAX)
    throw usageError(`--limit ${limit}: a whole number from 1 to ${REFUSALS_TOLD_MAX} (REFUSALS_TOLD_MAX)`);
  const back = since === undefined ? undefined : parseDuration(since);
  if (since !== undefined && back === undefined)
    throw usageError(`--since ${since}: a duration, such as 30s, 5m or 1h`);
  return {
    ...(model !== undefined && { model }),
    ...(app !== undefined && { app }),
    ...(cause !== undefined && { cause: causeOf(cause) }),
    ...(back !== undefined && { since: instant(Math.max(0, now - back)) }),
    // Ingresses keep the beginning of a long id.
    ...(request !== undefined && { request: request.slice(0, REQUEST_ID_LENGTH_MAX) }),
    most,
  };
}

/** Cancelled requests are not kept. */
const CAUSES = Object.keys(ERROR_STATUS)
  .map((code) => code.replace("TUTTI_", ""))
  .filter((word) => word !== "CANCELLED");

/** A code as `tutti status` shows it, or in full; in any case. */
function causeOf(typed: string): string {
  const word = typed
    .toUpperCase()
    .replaceAll("-", "_")
    .replace(/^TUTTI_/, "");
  if (word === LATE) return LATE;
  if (CAUSES.includes(word)) return `TUTTI_${word}`;
  const causes = [LATE, ...CAUSES];
  throw usageError(`--cause ${typed}${didYouMean(word, causes)}: one of ${causes.join(", ")}`);
}

/** @throws {CommandError} the request that was asked for is not there, or not every ingress answered */
function tell({ answers, silent }: IngressAnswers, question: Question, isJson: boolean): void {
  if (answers.length === 0) throw nobodyError(silent);
  const sum = (of: (told: RefusalsTold) => number): number => answers.reduce((total, told) => total + of(told), 0);
  const rows = refusalRows(answers, question.most);
  const totals = {
    matching: sum((told) => told.matching),
    seen: sum((told) => told.seen),
    left: sum((told) => told.left),
  };
  if (rows.length === 0 && question.request !== undefined)
    throw new CommandError(`${absentText(question.request, totals)}${silentText(silent)}`);
  if (isJson) print(JSON.stringify({ requests: rows, ...totals, silent: silent.map(actorToken) }));
  else if (question.request !== undefined) print(rows.map(renderExplanation).join("\n\n"));
  else print([...(rows.length === 0 ? [] : [renderRefusals(rows), ""]), totalText(rows.length, totals)].join("\n"));
  if (silent.length === 0) return;
  if (!isJson) throw new CommandError(`the list is not complete${silentText(silent)}`);
  process.exitCode = EXIT.failed; // the JSON names them
}

interface Totals {
  readonly matching: number;
  readonly seen: number;
  readonly left: number;
}

function totalText(shown: number, { matching, seen, left }: Totals): string {
  const since = `since the ingresses started ${seen} ${seen === 1 ? "request was" : "requests were"} refused or answered late`;
  if (seen === 0) return "No request was refused or answered late since the ingresses started.";
  const kept = left === 0 ? "all are kept" : `${left} of them are not kept: they were too many at once, or are too old`;
  return `${shown} of ${matching} such requests; ${since}, and ${kept}.`;
}

const absentText = (id: string, { seen, left }: Totals): string =>
  `no ingress keeps a refused or late request ${JSON.stringify(id)}: it was answered in time, or came with another id, or is not kept (${left} of ${seen} are not). \`tutti refusals --since 10m\` lists those that are`;

const silentText = (silent: IngressAnswers["silent"]): string =>
  silent.length === 0 ? "" : `; no answer from ${silent.map((key) => `ingress ${actorToken(key)}`).join(", ")}`;

/** Nobody is heard, or those that are there can't be asked. */
export function nobodyError(silent: IngressAnswers["silent"]): CommandError {
  if (silent.length === 0)
    return new CommandError("no ingress was heard: `tutti actors` lists who is there", EXIT.unavailable);
  const text = `no ingress answered${silentText(silent)}: it is too busy (--wait 10), or of an earlier release, or the NATS servers have the permissions of one (\`tutti auth write\`, have the servers read them, and restart the ingresses: \`tutti restart ingress\`)`;
  return new CommandError(text, EXIT.unavailable);
}
