import type { Delivery } from "@tutti/ports/bus";
import type { Decoded } from "@tutti/ports/decode";
import {
  type CostOffset,
  HEADER,
  HEADER_BYTES_MAX,
  type ModelStatus,
  NAME_RULE,
  REQUEST_BYTES_MAX,
  SIZE_HINT_MAX,
  SLO_US_MAX,
  STRIKES_MAX,
  TuttiError,
  isModelName,
  isName,
  noModelError,
  parseCosts,
  publicNameOf,
  strikeText,
  typicalLengths,
  unitsOfLengths,
} from "@tutti/protocol";
import { type Instant, type Micros, formatDuration, instant, micros, parseDuration } from "@tutti/units";
import { type Form, formOf } from "@tutti/wire";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";
import type { PendingRequests } from "../requests/pending-requests.ts";
import { TermsError, headerError, shown } from "../requests/terms-error.ts";

/** Parses `infer.<target>.<app>`; undefined for anything else. The names are not checked yet. */
export function readSubject(subject: string): { readonly target: string; readonly app: string } | undefined {
  const tokens = subject.split(".");
  const [, target = "", app = ""] = tokens;
  return tokens.length === 3 && target !== "" && app !== "" ? { target, app } : undefined;
}

/** @throws {TuttiError} INVALID_INPUT for names that no model or application can have */
export function checkNames({ target, app }: { readonly target: string; readonly app: string }): void {
  const bad = !isModelName(target) ? target : !isName(app) ? app : undefined;
  if (bad === undefined) return;
  const fault = `is no name of a model or an application: ${NAME_RULE} (NAME_LENGTH_MAX)`;
  throw new TermsError(`"${shown(bad)}" ${fault}`, `a name in the subject ${fault}`);
}

/**
 * Checks the limits of the ingress. It is called before the body is read, and again for the decoded size, since other
 * requests may have come meanwhile.
 *
 * @param more - 0: the bytes are of a request that has its place
 * @throws {TuttiError} OVERLOADED naming the limit
 */
export function checkRoom(
  pending: PendingRequests,
  { app, account, isJob }: Pick<PendingRequest, "app" | "account" | "isJob">,
  bytes: number,
  more: 0 | 1 = 1,
): void {
  const limit = pending.limitReached(account, bytes, more);
  if (limit === undefined) return;
  const [jobsOrRequests, owner] = isJob ? ["jobs", "all jobs"] : [`requests of "${app}"`, `"${app}"`];
  const text = {
    requestsMax: `this ingress holds ${pending.count} requests and takes no more for now (INGRESS_REQUESTS_MAX)`,
    bytesMax: `this ingress holds ${pending.bytes} bytes of inputs and takes no more for now (INGRESS_BYTES_MAX)`,
    appRequestsMax: `this ingress holds as many ${jobsOrRequests} as it takes of one application (APP_REQUESTS_MAX)`,
    appBytesMax: `this ingress holds as many bytes of inputs of ${owner} as it takes of one application (APP_BYTES_MAX)`,
  }[limit];
  throw new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 50 });
}

/** Returns the model if it serves. @throws {TuttiError} the reason otherwise, and what to do */
export function servingModel(
  model: CatalogModel | undefined,
  target: string,
  version: string | undefined,
): CatalogModel {
  if (model === undefined) throw noModelError(target);
  const { spec, status } = model;
  if (spec.family !== undefined)
    throw new TuttiError(
      "TUTTI_NOT_FOUND",
      `"${target}" is a family of models: ask for one of them, such as "${spec.family.variants[0]?.name}"`,
    );
  if (status?.state === "quarantined") throw quarantineError(model);
  if (version !== undefined && version !== spec.version)
    throw new TuttiError(
      "TUTTI_NOT_FOUND",
      `"${target}" is served in version ${spec.version}, not ${version}: leave ${HEADER.version} out to take what is there`,
    );
  if (status?.state === "refused" || status?.state === "failed") throw failedError(model);
  if (status?.state !== "ready" || model.lease === undefined)
    throw new TuttiError(
      "TUTTI_NOT_READY",
      `"${target}" is still being prepared (${status?.state ?? "waiting for an executor"})${troubleOf(model)}`,
      { retryAfterMs: 500 },
    );
  return model;
}

/** Describes the last fault that it caused in an executor. */
function troubleOf({ spec, faults }: CatalogModel): string {
  const last = faults?.number === spec.number ? faults.strikes.at(-1) : undefined;
  if (faults === undefined || last === undefined) return "";
  return `; it ${strikeText(last)} (${faults.strikes.length} of the ${STRIKES_MAX} times after which it is quarantined)`;
}

export const quarantineError = ({ spec, status }: CatalogModel): TuttiError =>
  new TuttiError("TUTTI_NOT_READY", `"${spec.name}" is quarantined: ${status?.reason ?? ""}`, { retryable: false });

const failedError = ({ spec, status }: CatalogModel): TuttiError =>
  new TuttiError("TUTTI_NOT_READY", `"${publicNameOf(spec.name)}" is not served: ${status?.reason ?? ""}`, {
    retryable: false,
  });

/** Reason why accepted requests of this model will not be served; undefined: it is served, or about to be. */
export function unservedError(model: CatalogModel): TuttiError | undefined {
  const state = model.status?.state;
  if (state === "quarantined") return quarantineError(model);
  return state === "refused" || state === "failed" ? failedError(model) : undefined;
}

type Timing = Pick<PendingRequest, "deadline" | "slo"> & Partial<Pick<PendingRequest, "costs">>;

/**
 * The absolute deadline from the first step of `Tutti-Costs`, from `Tutti-Slo` (a duration from arrival),
 * `Tutti-Deadline` (milliseconds since the epoch), or the standard SLO of the model or pipeline.
 *
 * @throws {TuttiError} INVALID_INPUT
 */
export function readTiming(
  delivery: Delivery,
  standard: Micros,
  arrivedAt: Instant,
  farthest: number = SLO_US_MAX,
): Timing {
  const costs = readCosts(delivery);
  if (costs !== undefined) return { deadline: instant(arrivedAt + costs[0]!.after), slo: costs[0]!.after, costs };
  const sloText = delivery.header(HEADER.slo);
  const deadlineText = sloText === undefined ? delivery.header(HEADER.deadline) : undefined;
  if (deadlineText !== undefined) {
    const deadline = Math.round(Number(deadlineText) * 1000);
    if (!Number.isSafeInteger(deadline) || deadline <= 0)
      throw headerError(HEADER.deadline, deadlineText, "is not a moment in milliseconds since 1970");
    if (deadline - arrivedAt > farthest) throw tooFar();
    return { deadline: instant(deadline), slo: micros(Math.max(0, deadline - arrivedAt)) };
  }
  const slo = sloText === undefined ? standard : parseDuration(sloText);
  if (slo === undefined || slo === 0)
    throw headerError(HEADER.slo, sloText ?? "", "is not a duration above zero such as 25ms or 1.5s");
  if (slo > farthest) throw tooFar();
  return { deadline: instant(arrivedAt + slo), slo };
}

/**
 * The costs of a late answer. Their first step is the SLO, which receivers that don't know costs read from `Tutti-Slo`:
 * the two must agree.
 */
function readCosts(delivery: Delivery): readonly CostOffset[] | undefined {
  const text = delivery.header(HEADER.costs);
  if (text === undefined) return undefined;
  const costs = parseCosts(text);
  if (typeof costs === "string")
    throw new TermsError(
      `${HEADER.costs} "${shown(text)}": ${costs}`,
      `${HEADER.costs} is no list of steps that can be used: write 25ms=1, 100ms=3`,
    );
  const sloText = delivery.header(HEADER.slo);
  if (
    sloText !== undefined ? parseDuration(sloText) !== costs[0]!.after : delivery.header(HEADER.deadline) !== undefined
  )
    throw new TermsError(
      `the first step of ${HEADER.costs} is the SLO: leave ${HEADER.slo} and ${HEADER.deadline} out, or give ${HEADER.slo}: ${formatDuration(costs[0]!.after)}`,
      `${HEADER.slo} or ${HEADER.deadline} differs from the first step of ${HEADER.costs}, which is the SLO`,
    );
  return costs;
}

/**
 * Refuses a deadline that even an empty system could not meet, before it costs any work.
 *
 * @param body - its bucket, and the length that it shows, whatever its publisher hinted
 * @throws {TuttiError} DEADLINE_INFEASIBLE; `request.feasible` then says what would have been feasible
 */
export function checkFeasible(
  request: Pick<PendingRequest, "model" | "lastDeadline" | "lastSlo" | "feasible">,
  { bucket, units }: Pick<Decoded, "bucket" | "units">,
  now: Instant,
  respond: Micros,
): void {
  const { model, lastDeadline: deadline, lastSlo: slo } = request;
  // Latencies are measured at the typical length: a shorter request counts its part of that, and a longer one no more.
  const typical = unitsOfLengths(typicalLengths(model.spec));
  const share = typical > 0 ? Math.min(1, units / typical) : 1;
  const alone = micros(Math.floor(leastAlone(model, bucket, share)));
  if (now + alone <= deadline - respond) return;
  // A moment that had passed on arrival leaves no SLO to measure from.
  const waited = slo === 0 ? 0 : now - deadline + slo;
  const least = micros(Math.ceil(alone + respond + waited));
  request.feasible = least;
  if (slo === 0)
    throw new TuttiError(
      "TUTTI_DEADLINE_INFEASIBLE",
      `the deadline of a request to "${model.spec.name}" had passed when it came: send ${HEADER.slo}, or see that clocks agree (${HEADER.deadline}); at least ${formatDuration(least)} would be feasible`,
    );
  throw new TuttiError(
    "TUTTI_DEADLINE_INFEASIBLE",
    `"${model.spec.name}" can't meet ${formatDuration(slo)}: one request alone takes ${formatDuration(alone)} and its answer ${formatDuration(respond)}; at least ${formatDuration(least)} would be feasible`,
  );
}

/**
 * Shortest isolated time of a request. A high percentile of a model's l(1) is the time of its longest requests: if
 * times vary, only the time of the shortest counts.
 */
function leastAlone({ status, times }: CatalogModel, bucket: number, share: number): number {
  const planned = share * (status === undefined ? 0 : fastestAlone(status, bucket));
  const known = times?.buckets[bucket];
  return known?.kind === "dynamic" && known.pool !== undefined ? Math.min(planned, known.pool.edges[0]!) : planned;
}

/** l(1) on the fastest type that serves the model: requests that only it can serve go there. */
function fastestAlone({ byType, executorTypes, profiles }: ModelStatus, bucket: number): number {
  let least = Infinity;
  for (const { type, profiles: measured, live = measured, unfit } of byType ?? [])
    if (unfit !== true && executorTypes.includes(type)) least = Math.min(least, live[bucket]?.[0]?.latency ?? Infinity);
  return least < Infinity ? least : (profiles[bucket]?.[0]?.latency ?? 0);
}

export function readForm(delivery: Delivery): Form {
  const contentType = delivery.header(HEADER.contentType);
  const form = formOf(contentType, delivery.payload);
  if (form !== undefined) return form;
  if (contentType === undefined)
    throw new TermsError("the payload is neither JSON nor binary tensors: set Content-Type");
  const forms = "application/json, application/msgpack or application/vnd.tutti.tensor";
  throw headerError("Content-Type", contentType, `is not served: use ${forms}`);
}

export const tooLarge = (bytes: number): TuttiError =>
  new TuttiError(
    "TUTTI_TOO_LARGE",
    `${bytes} bytes are more than the ${REQUEST_BYTES_MAX} that one request may have (REQUEST_BYTES_MAX)`,
  );

export function checkSize(delivery: Delivery): void {
  if (delivery.headersUnreadable === true)
    throw new TermsError("the message's headers can't be read: each is a line `name: value`");
  if (delivery.payload.byteLength > REQUEST_BYTES_MAX) throw tooLarge(delivery.payload.byteLength);
  if ((delivery.headerBytes ?? 0) > HEADER_BYTES_MAX)
    throw new TuttiError(
      "TUTTI_TOO_LARGE",
      `${delivery.headerBytes} bytes of headers are more than the ${HEADER_BYTES_MAX} that one request may have (HEADER_BYTES_MAX)`,
    );
}

/** 0 … 255, default 0; anything else is refused rather than guessed. */
export function readPriority(delivery: Delivery): number {
  const text = delivery.header(HEADER.priority);
  if (text === undefined) return 0;
  const priority = Number(text);
  if (Number.isInteger(priority) && priority >= 0 && priority <= 255) return priority;
  throw headerError(HEADER.priority, text, "is not a whole number from 0 to 255");
}

/**
 * The publisher's own size hint; 0 if there is none. A wrong one would mislead the plans, so it is refused rather than
 * guessed.
 */
export function readSizeHint(delivery: Delivery): number {
  const text = delivery.header(HEADER.size);
  if (text === undefined) return 0;
  const size = text.trim() === "" ? NaN : Number(text);
  if (size > 0 && size <= SIZE_HINT_MAX) return size;
  throw headerError(HEADER.size, text, `is not a number above zero and up to ${SIZE_HINT_MAX} (SIZE_HINT_MAX)`);
}

/** Names of the outputs that the header asks for. */
export function readWanted(delivery: Delivery): readonly string[] | undefined {
  return delivery
    .header(HEADER.outputs)
    ?.split(",")
    .map((name) => name.trim());
}

/** @returns undefined for all outputs @throws {TuttiError} INVALID_INPUT for an output that the model lacks */
export function checkWanted(
  wanted: readonly string[] | undefined,
  { spec }: CatalogModel,
): readonly string[] | undefined {
  if (wanted === undefined || wanted.length === 0) return undefined;
  for (const name of wanted) {
    if (spec.outputs.some((output) => output.name === name)) continue;
    const names = spec.outputs.map((output) => output.name).join(", ");
    throw new TermsError(
      `"${spec.name}" has no output "${shown(name)}": it has ${names}`,
      `"${spec.name}" lacks an output that was asked for: it has ${names}`,
    );
  }
  return wanted;
}

const tooFar = (): TuttiError =>
  new TermsError(
    `a deadline more than ${formatDuration(micros(SLO_US_MAX))} away would hold memory for as long: choose a nearer one (SLO_US_MAX)`,
  );
