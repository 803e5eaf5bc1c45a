import { type MessageOf, field, message } from "../fields.ts";

/**
 * The messages of a request's path: ids and times, never tensors (docs/architecture.md, 2). They travel in frames, many
 * to a bus message. Delivery is at most once, so each says how its loss is repaired.
 */
export const RequestArrived = message({
  tag: 1,
  name: "request-arrived",
  from: "ingress",
  to: "batcher",
  repair: "arrivalSeq has no gaps within (ingress, thread, term): the batcher asks for what it misses (ArrivalsMissed)",
  fields: {
    thread: field.thread,
    app: field.word, //        FNV-1a of the application's name
    term: field.count, //      of the model's lease, as the ingress knows it
    arrivalSeq: field.count,
    seq: field.request,
    arrivedAt: field.instant,
    deadline: field.instant, // the publisher's, less d_resp
    slo: field.micros,
    size: field.word,
    priority: field.byte,
    units: field.units, //     size hint: the request's length in its model's own unit; 0 = none
  },
});
export type RequestArrived = MessageOf<typeof RequestArrived>;

export const RequestWithdrawn = message({
  tag: 2,
  name: "request-withdrawn",
  from: "ingress",
  to: "batcher",
  repair: "none needed: the batch then carries a row that the ingress no longer has, and runs without it",
  fields: { thread: field.thread, seq: field.request },
});
export type RequestWithdrawn = MessageOf<typeof RequestWithdrawn>;

/**
 * Reasons why a request was still waiting when its batcher refused it: `refusalState` says what each means. Append
 * only.
 */
export const WAITED_FOR = ["nothing", "batch", "accelerator", "room", "share"] as const;

export const RequestRefused = message({
  tag: 3,
  name: "request-refused",
  from: "batcher",
  to: "ingress",
  repair: "the request's deadline timer at its ingress",
  fields: {
    thread: field.thread,
    code: field.byte, //      codeNumber(): DEADLINE_INFEASIBLE, OVERLOADED, …
    seq: field.request,
    feasible: field.micros, // at least this SLO would have been needed; 0 = unknown
    // One at most, for people who ask why (docs/observability.md); batchers of earlier releases send none.
    queue: field.addedList({
      waitedFor: field.byte, //    index in WAITED_FOR
      queued: field.word,
      inFlight: field.word, //     batches
      accelerators: field.word, // that serve its sub-cluster, and how many of them are idle, as far as is known
      idle: field.word,
      alone: field.micros, //      time that it would need by itself on a free accelerator
    }),
  },
});
export type RequestRefused = MessageOf<typeof RequestRefused>;
/** The queue in which a request was refused. */
export type RefusalQueue = RequestRefused["queue"][number];

export const CandidateOffered = message({
  tag: 4,
  name: "candidate-offered",
  from: "batcher",
  to: "ranker",
  repair: "a newer offer replaces it; heartbeats carry the current one",
  fields: {
    thread: field.thread,
    batchSize: field.word, // 0 = nothing to offer, forget the last one
    term: field.count, //     (term, offerSeq) orders offers
    offerSeq: field.count,
    execAt: field.instant, // earliest start worth having
    latest: field.instant, // latest start that still meets the head's deadline
    delay: field.micros, //   from sending the plan until the executor can start it
    unfit: field.addedList({ type: field.word }), // executor types that can't run it in time: FNV-1a of their names
  },
});
export type CandidateOffered = MessageOf<typeof CandidateOffered>;

export const GpuGranted = message({
  tag: 5,
  name: "gpu-granted",
  from: "ranker",
  to: "batcher",
  repair: "validUntil passes: the ranker asks the accelerator when it is free and hears the model again",
  fields: {
    thread: field.thread,
    gpu: field.gpu,
    term: field.count,
    offerSeq: field.count,
    executor: field.actor,
    epoch: field.count, //    of the ranker's lease
    grantSeq: field.count, // per accelerator
    freeAt: field.instant,
    sentAt: field.instant,
    validUntil: field.instant,
    scarcity: field.byte, // the highest that a model reported lately, in 255ths
  },
});
export type GpuGranted = MessageOf<typeof GpuGranted>;

export const GrantAnswered = message({
  tag: 6,
  name: "grant-answered",
  from: "batcher",
  to: "ranker",
  repair: "as for gpu-granted",
  fields: {
    thread: field.thread,
    gpu: field.gpu,
    term: field.count,
    offerSeq: field.count, // offers up to this one are void
    epoch: field.count,
    grantSeq: field.count,
    used: field.flag,
    freeAt: field.instant, // start + l(b) if used
    scarcity: field.byte, //  of accelerators, as the model sees it, in 255ths
  },
});
export type GrantAnswered = MessageOf<typeof GrantAnswered>;

export const BatchDispatched = message({
  tag: 7,
  name: "batch-dispatched",
  from: "batcher",
  to: "executor",
  repair: "the batcher holds the batch and asks (BatchAsked) when it is overdue",
  fields: {
    batchId: field.batch,
    thread: field.thread,
    gpu: field.gpu,
    term: field.count,
    epoch: field.count,
    grantSeq: field.count,
    executor: field.actor, // the incarnation that is meant
    ranker: field.actor, //   who granted
    validUntil: field.instant,
    grantedAt: field.instant, // the rank timer's firing, from which delay(b) counts
    sentAt: field.instant,
    startAt: field.instant, // planned start (c.exec)
    latest: field.instant,
    frontrun: field.instant,
    expectedRun: field.micros,
    ingresses: field.list({ ingress: field.actor, token: field.token, count: field.word }),
    requests: field.list({ seq: field.request }), // grouped by ingress, in the order of `ingresses`; row order
  },
});
export type BatchDispatched = MessageOf<typeof BatchDispatched>;

export const BATCH_REFUSALS = [
  "old-epoch",
  "old-sequence",
  "old-term",
  "expired",
  "wrong-incarnation",
  "model-not-loaded",
  "draining",
  "full",
] as const;
export type BatchRefusal = (typeof BATCH_REFUSALS)[number];

export const BatchRefused = message({
  tag: 8,
  name: "batch-refused",
  from: "executor",
  to: "batcher",
  repair: "BatchAsked",
  fields: { batchId: field.batch, thread: field.thread, gpu: field.gpu, reason: field.byte },
});
export type BatchRefused = MessageOf<typeof BatchRefused>;

export const BatchFinished = message({
  tag: 9,
  name: "batch-finished",
  from: "executor",
  to: "batcher, profiler",
  repair: "BatchAsked",
  fields: {
    batchId: field.batch,
    thread: field.thread,
    gpu: field.gpu,
    batchSize: field.word, //  rows that ran
    failed: field.word, //     rows answered with an error
    executor: field.actor,
    grantedAt: field.instant,
    receivedAt: field.instant, // batch message at the executor
    readyAt: field.instant, //    inputs there and assembled
    startedAt: field.instant,
    finishedAt: field.instant,
    run: field.micros, //         as the engine measured it
  },
});
export type BatchFinished = MessageOf<typeof BatchFinished>;

/**
 * Reports an accelerator's free time when batches take other than planned, and as the answer to GpuAsked. The ranker
 * learns from it how early runs end; what else occupies an accelerator is told by GpuJoined.
 */
export const GpuFreed = message({
  tag: 10,
  name: "gpu-freed",
  from: "executor",
  to: "ranker",
  repair: "heartbeats carry free times",
  fields: { gpu: field.gpu, executor: field.actor, epoch: field.count, grantSeq: field.count, freeAt: field.instant },
});
export type GpuFreed = MessageOf<typeof GpuFreed>;

/** Asks an accelerator when it is free, after a grant's validUntil passed unanswered. */
export const GpuAsked = message({
  tag: 11,
  name: "gpu-asked",
  from: "ranker",
  to: "executor",
  repair: "asked again with the next expiry",
  fields: { gpu: field.gpu, epoch: field.count, grantSeq: field.count },
});
export type GpuAsked = MessageOf<typeof GpuAsked>;

/**
 * Asks for the outcome of a batch. The answer is BatchFinished, BatchRefused (unknown: never accepted), or none yet if
 * it still runs.
 */
export const BatchAsked = message({
  tag: 12,
  name: "batch-asked",
  from: "batcher",
  to: "executor",
  repair: "asked again",
  fields: { batchId: field.batch, thread: field.thread, gpu: field.gpu, executor: field.actor },
});
export type BatchAsked = MessageOf<typeof BatchAsked>;

/** Reports a gap in arrivalSeq: the ingress sends again those of [fromSeq, toSeq) that are still pending. */
export const ArrivalsMissed = message({
  tag: 13,
  name: "arrivals-missed",
  from: "batcher",
  to: "ingress",
  repair: "heartbeats carry the last arrivalSeq",
  fields: { thread: field.thread, term: field.count, fromSeq: field.count, toSeq: field.count },
});
export type ArrivalsMissed = MessageOf<typeof ArrivalsMissed>;

/**
 * Asks whether the leader still leads and lives. A standby asks the leader, and so does a leader itself, whose own
 * question comes back behind everything that was sent to it before.
 */
export const LeaderAsked = message({
  tag: 14,
  name: "leader-asked",
  from: "ranker",
  to: "ranker",
  repair: "asked again, some ten times a second and more",
  fields: { epoch: field.count, sentAt: field.instant },
});
export type LeaderAsked = MessageOf<typeof LeaderAsked>;

export const LeaderAnswered = message({
  tag: 15,
  name: "leader-answered",
  from: "ranker",
  to: "ranker",
  repair: "asked again",
  fields: { epoch: field.count, sentAt: field.instant },
});
export type LeaderAnswered = MessageOf<typeof LeaderAnswered>;

/**
 * Costs of a late answer to the request whose arrival follows in the same frame (docs/algorithms.md, B8). Requests
 * without costs send none, and a batcher that doesn't know this message serves the request by its first step.
 */
export const RequestCosts = message({
  tag: 16,
  name: "request-costs",
  from: "ingress",
  to: "batcher",
  repair: "sent again with its request-arrived; without it the first step alone counts",
  fields: {
    thread: field.thread,
    seq: field.request,
    steps: field.list({ deadline: field.instant, cost: field.cost }), // the first deadline is that of the request
  },
});
export type RequestCosts = MessageOf<typeof RequestCosts>;

/**
 * A batch of jobs that waits for time that no request needs (docs/algorithms.md, A13). The fields that it shares with
 * CandidateOffered mean the same. A ranker that doesn't know this message grants nothing to jobs.
 */
export const JobOffered = message({
  tag: 17,
  name: "job-offered",
  from: "batcher",
  to: "ranker",
  repair: "a newer offer replaces it; heartbeats carry the current one",
  fields: {
    thread: field.thread,
    batchSize: field.word,
    term: field.count,
    offerSeq: field.count,
    execAt: field.instant,
    latest: field.instant,
    delay: field.micros,
    takes: field.micros, // run time of the batch
    unfit: field.addedList({ type: field.word }),
  },
});
export type JobOffered = MessageOf<typeof JobOffered>;
