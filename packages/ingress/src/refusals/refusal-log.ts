/**
 * The newest requests that were refused or answered late, for an operator who asks why (`tutti refusals`). It keeps
 * what is known when the request ends, and never its inputs or outputs.
 *
 *   REFUSALS-1. Bounded (T7): beyond REFUSALS_KEPT_MAX the oldest is let go.
 *   REFUSALS-2. A flood leaves the others there for long: of each kind (model, application, cause) a burst is kept and
 *               so many a second, and the rest is counted. At 100,000 refusals a second this is all that most of them
 *               cost.
 *   REFUSALS-3. Requests that their publisher cancelled are not in it, nor jobs, nor warm-up requests.
 *   REFUSALS-4. Texts that may quote inputs are left out: those of errors in reading a body, in a run, and in a
 *               pipeline's function. A fault in a header is told without the header's value.
 */
import {
  type ErrorCode,
  LATE,
  NAME_LENGTH_MAX,
  REPORTED_REFUSALS_MAX,
  REPORTED_TEXT_LENGTH_MAX,
  REQUEST_ID_LENGTH_MAX,
  RefusalBatchTold,
  type RefusalQueue,
  type RefusalReport,
  RefusalQueueTold,
  type RefusalTold,
  type RefusalsAsked,
  type RefusedRequest,
  type Refuser,
  type ResultBatch,
  type Schema,
  type StatsReported,
  type TuttiError,
  WAITED_FOR,
  codeNumber,
  isModelName,
} from "@tutti/protocol";
import { parseTraceparent } from "@tutti/ports/telemetry";
import { type ActorKey, type Instant, actorToken, between } from "@tutti/units";
import { keptText } from "../requests/kept-text.ts";
import type { PendingRequest } from "../requests/pending-request.ts";
import { tellableText } from "../requests/tellable-text.ts";

/** Requests that one ingress keeps: some 10 MB. */
export const REFUSALS_KEPT_MAX = 16_384;
/**
 * Requests of one kind that are kept if they come at once, and each second: one flood takes 53 minutes to push out the
 * other kinds.
 */
const BURST_KEPT = 512;
const KEPT_PER_SECOND = 5;
/** Kinds that are told apart, by a hash: those that share a place share what is kept of them. */
const KIND_BITS = 10;
/** The cause of late answers, beside the numbers of codes. */
const LATE_NUMBER = 255;

/** Stands where a text is left out (REFUSALS-4). */
const NOT_TOLD = "its publisher was told; the text may quote its input";

/** The end of a request. */
export interface RequestEnding {
  /** Undefined: it was answered. */
  readonly error: TuttiError | undefined;
  /** The actor that caused the error. */
  readonly by: Refuser;
  readonly now: Instant;
  /** Set if its executor reported an outcome. */
  readonly results: ResultBatch | undefined;
}

export class RefusalLog {
  readonly #self: ActorKey;
  readonly #token: string;
  /** A ring once it is full; entry n is at (n - 1) modulo its size. */
  readonly #kept: RefusedRequest[] = [];
  #entries = 0;
  /** The last entry that a report was made of. */
  #told = 0;
  /** How many more of each kind may be kept, as of a moment: a token bucket. */
  readonly #room = new Float64Array(2 ** KIND_BITS).fill(BURST_KEPT);
  readonly #roomAt = new Float64Array(2 ** KIND_BITS);
  /** Requests that were refused or answered late. */
  seen = 0;

  constructor(self: ActorKey) {
    this.#self = self;
    this.#token = actorToken(self);
  }

  /** Those of `seen` that are not kept, or no longer. */
  get left(): number {
    return this.seen - this.#kept.length;
  }

  /** Notes how a request ended; all but refusals and late answers are ignored. */
  note(request: PendingRequest, ending: RequestEnding): void {
    const { error, now } = ending;
    if (request.isJob || request.onSettled !== undefined || error?.code === "TUTTI_CANCELLED") return;
    // The deadline of a stage is planned by the ingress: a publisher knows that of the pipeline.
    if (error === undefined && (now <= request.deadline || request.pipeline !== undefined)) return;
    this.seen++;
    if (!this.#hasRoom(request, error, now)) return;
    const entry = ++this.#entries;
    this.#kept[(entry - 1) % REFUSALS_KEPT_MAX] = this.#describe(entry, request, ending);
  }

  /** The newest of the requests that are meant, and the number of all that are. */
  find(asked: RefusalsAsked): { readonly requests: RefusedRequest[]; readonly matching: number } {
    const requests: RefusedRequest[] = [];
    let matching = 0;
    const oldest = this.#entries - this.#kept.length;
    for (let entry = this.#entries; entry > oldest; entry--) {
      const one = this.#kept[(entry - 1) % REFUSALS_KEPT_MAX]!;
      if (!this.#isMeant(one, asked)) continue;
      matching++;
      if (requests.length < asked.most) requests.push(one);
    }
    return { requests, matching };
  }

  /** The last of those that were refused since the last call, for a report that goes to consoles. */
  told(): Pick<StatsReported, "refusals"> {
    const refusals: RefusalReport[] = [];
    const known = Math.max(this.#told, this.#entries - this.#kept.length);
    for (let entry = this.#entries; entry > known && refusals.length < REPORTED_REFUSALS_MAX; entry--) {
      const one = this.#kept[(entry - 1) % REFUSALS_KEPT_MAX]!;
      if (one.refusal !== undefined) refusals.push(this.#reportOf(one, one.refusal));
    }
    this.#told = this.#entries;
    return refusals.length === 0 ? {} : { refusals: refusals.reverse() };
  }

  #reportOf({ entry, at, model, version, app, messageId, bodyId, traceId }: RefusedRequest, refusal: RefusalTold) {
    const asked = version ?? model;
    return {
      ...{ at, model: isModelName(asked) ? asked : "", code: refusal.code as ErrorCode },
      ...{ text: refusal.text ?? NOT_TOLD, app, id: messageId ?? bodyId ?? traceId ?? `${this.#token}.${entry}` },
      ...(traceId !== undefined && { traceId }),
    };
  }

  /** REFUSALS-2. */
  #hasRoom({ appId, model }: PendingRequest, error: TuttiError | undefined, now: Instant): boolean {
    const cause = error === undefined ? LATE_NUMBER : codeNumber(error.code);
    // A request that is refused before its model is known has none, whatever its type says.
    const number = (model as PendingRequest["model"] | undefined)?.spec.number ?? 0;
    const kind = placeOf(appId, number, cause);
    const grown = (Math.max(0, now - this.#roomAt[kind]!) * KEPT_PER_SECOND) / 1e6;
    const room = Math.min(BURST_KEPT, this.#room[kind]! + grown);
    this.#roomAt[kind] = now;
    this.#room[kind] = room < 1 ? room : room - 1;
    return room >= 1;
  }

  #describe(entry: number, request: PendingRequest, ending: RequestEnding): RefusedRequest {
    const { error, by, now, results } = ending;
    const { arrivedAt, target, app, pipeline, executor, refusedIn } = request;
    // A refusal with costs in steps means the last one, which the publisher was told; a late answer missed the first.
    const slo = error === undefined ? request.slo : request.lastSlo;
    const model = request.model as PendingRequest["model"] | undefined;
    const served = model?.spec.name;
    const queue = refusedIn === undefined ? undefined : queueOf(refusedIn);
    const batch = results === undefined ? undefined : batchOf(results);
    return {
      ...{ entry, at: now, waited: between(arrivedAt, now) },
      model: keptText(target, NAME_LENGTH_MAX),
      app: keptText(app, NAME_LENGTH_MAX),
      ...(served !== undefined && served !== target && { version: keptText(served, NAME_LENGTH_MAX) }),
      ...(pipeline !== undefined && { pipeline: keptText(pipeline, NAME_LENGTH_MAX) }),
      ...idsOf(request),
      ...(slo > 0 && { slo }),
      ...(error === undefined
        ? { lateBy: between(request.deadline, now) }
        : { refusal: this.#refusalOf(request, error, ending) }),
      ...(queue !== undefined && { queue }),
      ...(batch !== undefined && { batch }),
      ...(by === "ingress" && results === undefined && executor !== 0 && { pulledBy: executor }),
    };
  }

  #refusalOf(request: PendingRequest, error: TuttiError, { by, results }: RequestEnding): RefusalTold {
    const { code, retryable, retryAfterMs } = error;
    const text = tellableText(error, by);
    const { feasible, refusedBy } = request;
    const refuser = { ingress: this.#self, batcher: refusedBy, executor: results?.executor }[by];
    const isKnown = feasible > 0 && Number.isSafeInteger(feasible);
    return {
      ...{ code, retryable, by },
      ...(text !== undefined && { text: keptText(text, REPORTED_TEXT_LENGTH_MAX) }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      actor: (refuser ?? this.#self) as ActorKey,
      ...(isKnown && { feasible }),
    };
  }

  #isMeant(one: RefusedRequest, { model, app, cause, since, request }: RefusalsAsked): boolean {
    if (model !== undefined && ![one.model, one.version, one.pipeline].includes(model)) return false;
    if (app !== undefined && one.app !== app) return false;
    if (cause !== undefined && (one.refusal?.code ?? LATE) !== cause) return false;
    if (since !== undefined && one.at < since) return false;
    if (request === undefined) return true;
    return [one.messageId, one.bodyId, one.traceId, `${this.#token}.${one.entry}`].includes(request);
  }
}

/** The place of a kind, by the mixing steps of MurmurHash3. */
function placeOf(app: number, model: number, cause: number): number {
  const h = app ^ Math.imul(model + 1, 0x9e3779b1) ^ Math.imul(cause + 1, 0x85ebca6b);
  return Math.imul(h ^ (h >>> 16), 0xc2b2ae35) >>> (32 - KIND_BITS);
}

function idsOf(request: PendingRequest): Pick<RefusedRequest, "messageId" | "bodyId" | "traceId"> {
  const { messageId, publisherId, publisherTrace, span } = request;
  const traceId = parseTraceparent(publisherTrace)?.traceId ?? span?.context.traceId;
  return {
    ...(messageId !== undefined && { messageId: keptText(messageId, REQUEST_ID_LENGTH_MAX) }),
    ...(publisherId !== undefined && { bodyId: keptText(publisherId, REQUEST_ID_LENGTH_MAX) }),
    ...(traceId !== undefined && { traceId: keptText(traceId, REQUEST_ID_LENGTH_MAX) }),
  };
}

const queueOf = ({ waitedFor, ...queue }: RefusalQueue): RefusalQueueTold | undefined =>
  sound(RefusalQueueTold, { waitedFor: WAITED_FOR[waitedFor] ?? "", ...queue });

const batchOf = ({
  batchSize: size,
  executor,
  gpu,
  startedAt,
  finishedAt,
}: ResultBatch): RefusalBatchTold | undefined =>
  sound(RefusalBatchTold, { size, executor, gpu, startedAt, finishedAt });

/** A value of another actor, or undefined if no reader would take it (T8). */
const sound = <T>(accepts: Schema<T>, value: unknown): T | undefined => (accepts(value) ? value : undefined);
