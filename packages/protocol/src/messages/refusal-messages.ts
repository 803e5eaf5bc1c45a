/**
 * Questions of an operator's command about requests that were refused or answered late, and the ingresses' answers
 * (docs/observability.md). Answers go to the asker's own subject. `ask` is the asker's number for one question; a
 * repeated question is answered again.
 */
import { NAME_LENGTH_MAX, REQUEST_ID_LENGTH_MAX } from "../limits.ts";
import { type MessageOf, packed } from "../fields.ts";
import { REPORTED_TEXT_LENGTH_MAX } from "./reports.ts";
import { type Static, schema } from "../schema.ts";

/** Most requests of one answer: the newest that the question means. */
export const REFUSALS_TOLD_MAX = 100;

const ask = schema.whole(1, Number.MAX_SAFE_INTEGER);
/** The beginning of a name: a request that is refused for its names may carry anything. */
const name = schema.text(NAME_LENGTH_MAX);
/** A word that a newer ingress may have more of than this release knows. */
const word = schema.text(64);
const id = schema.text(REQUEST_ID_LENGTH_MAX);

/** `executor`: the run failed. */
export const REFUSERS = ["ingress", "batcher", "executor"] as const;
export type Refuser = (typeof REFUSERS)[number];

/** Error that the publisher was sent. */
const RefusalTold = schema.record({
  code: word,
  /** Left out: it may quote the input. */
  text: schema.optional(schema.text(REPORTED_TEXT_LENGTH_MAX)),
  retryable: schema.flag,
  retryAfterMs: schema.optional(schema.finite),
  by: schema.oneOf(REFUSERS),
  actor: schema.actor,
  /**
   * At least this SLO would have been needed: it is known without the wait for an accelerator. Left out: unknown, or
   * time was not the cause.
   */
  feasible: schema.optional(schema.time),
});

/** The queue that it was in when its batcher refused it: a model has one for each of its buckets. */
export const RefusalQueueTold = schema.record({
  /** One of WAITED_FOR. */
  waitedFor: word,
  queued: schema.count,
  inFlight: schema.count,
  /** Accelerators that served the model, and how many of them were idle, as far as its batcher knew. */
  accelerators: schema.count,
  idle: schema.count,
  /** Time that it would have needed by itself on a free accelerator. */
  alone: schema.time,
});

/** The batch that it was answered from, late or with an error. */
export const RefusalBatchTold = schema.record({
  size: schema.batchSize,
  executor: schema.actor,
  gpu: schema.gpu,
  startedAt: schema.moment,
  finishedAt: schema.moment,
});

/** A request that was refused or answered late. It has neither inputs nor outputs. */
export const RefusedRequest = schema.record({
  /** Its number at its ingress: `<ingress>.<entry>` names it where its publisher gave no id. */
  entry: schema.count,
  /** When it was refused or answered. */
  at: schema.moment,
  /** Time since its arrival at its ingress. */
  waited: schema.time,
  model: name,
  /** The version that it was for, if that has another name than the model that was asked for. */
  version: schema.optional(name),
  app: name,
  /** The pipeline that it was a stage's request of. */
  pipeline: schema.optional(name),
  /** Publisher's ids: `Nats-Msg-Id`, the body's `id`, and the trace of `traceparent`. */
  messageId: schema.optional(id),
  bodyId: schema.optional(id),
  traceId: schema.optional(id),
  /**
   * For a refusal with costs in steps the last one. Left out: it was refused before its terms were read.
   */
  slo: schema.optional(schema.time),
  /** It was either refused, or answered so long after its deadline. */
  refusal: schema.optional(RefusalTold),
  lateBy: schema.optional(schema.time),
  queue: schema.optional(RefusalQueueTold),
  batch: schema.optional(RefusalBatchTold),
  /** Executor that had its inputs when its time was over without a result. */
  pulledBy: schema.optional(schema.actor),
});
export type RefusedRequest = Static<typeof RefusedRequest>;
export type RefusalTold = Static<typeof RefusalTold>;
export type RefusalQueueTold = Static<typeof RefusalQueueTold>;
export type RefusalBatchTold = Static<typeof RefusalBatchTold>;

export const RefusalsAsked = packed(
  {
    ask,
    model: schema.optional(name),
    app: schema.optional(name),
    /** An error code, or LATE. */
    cause: schema.optional(word),
    since: schema.optional(schema.moment),
    /** One of the publisher's ids, or `<ingress>.<entry>`. */
    request: schema.optional(id),
    most: schema.whole(1, REFUSALS_TOLD_MAX),
  },
  {
    tag: 86,
    name: "refusals-asked",
    from: "operator",
    to: "ingress",
    repair: "asked again while an answer is missing",
  },
);
export type RefusalsAsked = MessageOf<typeof RefusalsAsked>;

/** The cause of requests that were answered, but after their deadline. */
export const LATE = "LATE";

export const RefusalsTold = packed(
  {
    ask,
    ingress: schema.actor,
    /** Newest first. */
    requests: schema.list(RefusedRequest, REFUSALS_TOLD_MAX),
    /** Kept requests that the question means. */
    matching: schema.count,
    /** Requests that were refused or answered late since the ingress started, and those of them that are not kept. */
    seen: schema.count,
    left: schema.count,
  },
  { tag: 87, name: "refusals-told", from: "ingress", to: "operator", repair: "RefusalsAsked is sent again" },
);
export type RefusalsTold = MessageOf<typeof RefusalsTold>;
