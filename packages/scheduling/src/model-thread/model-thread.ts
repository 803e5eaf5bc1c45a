/**
 * ModelThread: the batcher of one model. It keeps the pending requests in deadline order, offers the ranker at most one
 * candidate at a time, and forms the batch only when an accelerator is granted. docs/algorithms.md, A1 to A4.
 *
 *   M1. Every request that arrives leaves exactly once: in a batch, refused, or withdrawn by its ingress. A dispatched
 *       batch stays in flight until it is reported done, so that a refused or lost one can be put back.
 *   M2. Answering a grant voids all earlier offers, which may name requests that the batch took: see offerSeq.
 *   M3. A grant is accepted at most once. It must be of the current term, of an epoch not older than any seen, and not
 *       past validUntil, and no newer grant of its accelerator may have overtaken it. Any other grant gets neither
 *       answer nor batch (T5).
 *   M4. Every member of a batch ends by its deadline at plan time: start ≤ latest.
 *   M5. While a batch is chosen, wakeAt is one tick after the last moment at which it could be sent; otherwise NEVER.
 *   M6. The queue, the batches in flight and the remembered grants are bounded; a full queue refuses requests.
 *   M7. Arrivals while a plan's grant is on its way must not push the planned head out. For d_ctrl from the moment the
 *       plan is due, and when its grant comes, the head is dropped only if it can't run even alone, so the batch
 *       shrinks instead. Without delays there is no such moment, and A2 holds as printed. See the README.
 *   M8. Under overload, requests of several applications or priorities are admitted by fair shares (admission/).
 *       Requests of only one, and all in calm, are always admitted.
 */
import type { LatencyTable } from "@tutti/profile";
import { NEVER, assert, unreachable } from "@tutti/units";
import type { ActorKey, BatchId, Instant, Micros, RequestSeq } from "@tutti/units";
import { NONE_UNFIT } from "../rank-thread/accelerator-classes.ts";
import { alone, choose, delay, update } from "../batches/candidate.ts";
import { DynamicPart } from "../dynamic/length-choice.ts";
import { keepLater } from "../batches/later-choice.ts";
import { LaterRequest } from "../batches/later-request.ts";
import type { Candidate, DispatchedBatch, Grant, ModelEffects, ModelEvent, Request } from "../messages.ts";
import type { ModelThread } from "./model-thread-state.ts";
import { reportedScarcity } from "../adaptation/scarcity.ts";
import { FastestPart } from "../batches/typed-choice.ts";

/** Time of the next clock-reached; `NEVER` when no timer is armed. */
export const nextWakeAt = (model: ModelThread): Instant => model.wakeAt;
export const queueLength = (model: ModelThread): number => model.queue.size + (model.later?.size ?? 0);
/** Batches that were sent out and are not reported done. */
export const inFlight = (model: ModelThread): number => model.inFlightBatches.size;
/** A batch that is not reported done; undefined: there is none. */
export const batchInFlight = (model: ModelThread, batchId: BatchId): DispatchedBatch | undefined =>
  model.inFlightBatches.find(batchId);
/** Calls back for each batch that is not reported done; the batch may be refused meanwhile. */
export const eachInFlight = (model: ModelThread, visit: (batch: DispatchedBatch) => void): void =>
  model.inFlightBatches.forEach(visit);
/** The target batch at the rate last measured, for the model's own SLO. */
export const currentTarget = (model: ModelThread): number => model.targets.forSlo(model.slo);
/** The last offer that is not voided, for heartbeats; batchSize 0: none. Borrowed. */
export const offeredCandidate = (model: ModelThread): Readonly<Candidate> => model.offered;

export function step(model: ModelThread, event: ModelEvent, out: ModelEffects): void {
  switch (event.kind) {
    case "request-arrived":
      return requestArrived(model, event.at, event.request, out);
    case "request-withdrawn":
      return void requestWithdrawn(model, event.at, event.ingress, event.seq, out);
    case "ingress-lost":
      return ingressLost(model, event.at, event.ingress, out);
    case "gpu-granted":
      return gpuGranted(model, event.at, event.grant, out, event.own);
    case "clock-reached":
      return modelClockReached(model, event.at, out);
    case "batch-refused":
      return batchRefused(model, event.at, event.batchId, out);
    case "batch-finished":
      return batchFinished(model, event.at, event.batchId, out, event.run, event.end);
    case "executor-lost":
      return executorLost(model, event.at, event.executor, out);
    case "profile-changed":
      return profileChanged(model, event.at, event, out);
    case "delays-changed":
      return delaysChanged(model, event.at, event, out);
    case "ranker-changed":
      return rankerChanged(model, event.at, event.epoch, out);
    case "sub-cluster-changed":
      return subClusterChanged(model, event.at, event.epoch, out);
    default:
      return unreachable(event);
  }
}

/**
 * Length of a hop, as a fraction of d_ctrl. d_ctrl is the 95th percentile of the time of a grant, a batch and its
 * pulls.
 */
const HOP = 1 / 4;

export function requestArrived(model: ModelThread, at: Instant, request: Request, out: ModelEffects): void {
  advance(model, at);
  // Judge it by its own SLO. A request that is late only because ingress or bus are behind is a sign of overload, like
  // any other that is lost.
  const isHopeless = request.arrivedAt + delay(model, 1) + alone(model, request) > request.deadline;
  model.shares.came(request);
  if (!isHopeless && !model.shares.admit(at, request)) {
    // Sent again by repair.
    if (model.queue.has(request.ingress, request.seq) || model.later?.has(request.ingress, request.seq) === true)
      return;
    model.shares.refused(request);
    return out.refuse(request, "overloaded", Infinity as Micros);
  }
  if (model.later?.has(request.ingress, request.seq) === true) return; // as above
  model.rate.note(at); // a request that is refused on arrival can't make batches larger
  const added = model.queue.add(request);
  if (added === "repeated") return; // repair sends arrivals again
  if (added === "full") {
    model.shares.dropped(at, request);
    return out.refuse(request, "overloaded", Infinity as Micros);
  }
  model.dynamic?.add(request);
  model.refusals.came(request, at, isHopeless);
  // Most arrivals change nothing behind a batch that its head's deadline or the profile limits: skip the choice.
  if (!model.isGrowable && at < model.wakeAt && model.queue.head() !== request) return;
  update(model, out);
}

/** @returns whether it was queued here; a request in a batch is left out of it where that is still possible */
export function requestWithdrawn(
  model: ModelThread,
  at: Instant,
  ingress: ActorKey,
  seq: RequestSeq,
  out: ModelEffects,
): boolean {
  advance(model, at);
  const removed = model.queue.remove(ingress, seq) ?? model.later?.remove(ingress, seq);
  if (removed === undefined) {
    model.inFlightBatches.withdraw(ingress, seq);
    return false;
  }
  model.dynamic?.remove(removed);
  update(model, out);
  return true;
}

export function ingressLost(model: ModelThread, at: Instant, ingress: ActorKey, out: ModelEffects): void {
  advance(model, at);
  model.inFlightBatches.withdrawIngress(ingress);
  const removed = model.queue.removeIngress(ingress) + (model.later?.removeIngress(ingress) ?? 0);
  if (removed === 0) return;
  model.dynamic?.removeIngress(ingress);
  update(model, out);
}

export function modelClockReached(model: ModelThread, at: Instant, out: ModelEffects): void {
  advance(model, at);
  // The invalidation timer: without it, a batch that no longer fits would stay offered until the next arrival.
  if (at >= model.wakeAt) update(model, out);
}

/**
 * Takes a grant: forms the batch now, for this accelerator, from the requests that are queued now (late binding; A4,
 * Grant). Offers are planned with the slowest accelerators (A3), so that any may be granted. A faster one takes more
 * requests in the same time, and is free again when its own run ends.
 *
 * @param own - latencies on that accelerator; ignored where they are longer than planned. Default: as planned
 */
export function gpuGranted(model: ModelThread, at: Instant, grant: Grant, out: ModelEffects, own?: LatencyTable): void {
  advance(model, at);
  const isOwnRun = model.accepted.hadOneBefore(grant);
  if (!obey(model, grant)) return;
  model.scarcityOfOthers = grant.scarcity;
  const headBefore = model.head;
  // d_ctrl counts from the ranker's timer (docs/architecture.md, section 2), so the grant has used a part of it.
  const base = Math.max(at, Math.min(grant.sentAt, at) + model.ctrl) as Instant;
  const isPlanned = headBefore === model.offeredHead || model.skipped > 0;
  model.keptHead = isPlanned && grant.offerSeq >= model.headOfferSeq ? model.offeredHead : undefined; // M7
  if (!model.inFlightBatches.isFull(at)) {
    const isKnown = own !== undefined && isFaster(own, model);
    if (isKnown) model.latencies = own.byBatchSize;
    // One of unknown latencies might be granted again and again what only the fastest can serve: it drops that.
    const fastest = isKnown || model.fastest?.isPlanned !== true ? model.fastest : undefined;
    choose(model, base, grant.freeAt, out, fastest);
    if (fastest?.isPlanned === true) model.batchSize = 0; // TYPED-3: not for this accelerator
    model.latencies = model.profile.byBatchSize;
  } else model.batchSize = 0;

  const b = model.batchSize;
  if (b === 0) answer(model, grant, false, Math.max(at, grant.freeAt) as Instant, out);
  else if (isNotDue(model, grant, headBefore)) answer(model, grant, false, grant.freeAt, out);
  else {
    const startAt = Math.max(base + model.perItem * b, grant.freeAt, model.awaited) as Instant;
    assert(startAt <= model.latest, "M4: a batch that would miss its deadline");
    const { expectedRun } = model;
    // Warm-up requests wait for one another and for measurements: that says nothing about the load.
    const tells = model.prefer === "latency" && b > model.laterSize && model.first!.isOwn !== true;
    if (tells) noteWait(model, grant, b - model.laterSize, isOwnRun);
    dispatch(model, grant, startAt, expectedRun, out);
    answer(model, grant, true, (startAt + expectedRun) as Instant, out);
  }
  update(model, out);
}

/**
 * Whether a batch takes no longer than planned. On a slower accelerator requests would be dropped that others can
 * serve.
 */
function isFaster({ byBatchSize, batchSizeMax }: LatencyTable, { profile, batchSizeMax: most }: ModelThread): boolean {
  return (
    batchSizeMax >= most &&
    byBatchSize[1]! <= profile.byBatchSize[1]! &&
    byBatchSize[most]! <= profile.byBatchSize[most]!
  );
}

/** @param isOwnRun - whether the run that a wait is for is this model's */
function noteWait(model: ModelThread, grant: Grant, batchSize: number, isOwnRun: boolean): void {
  const eager = model.first!.arrivedAt + delay(model, batchSize);
  const wanted = model.offeredAwaited > eager ? model.offeredAwaited : eager;
  model.scarcity.note(model.now, batchSize, grant.freeAt - wanted, model.latest - wanted, isOwnRun);
  model.sole.note(grant.gpu, grant.freeAt > wanted);
}

/**
 * True if heads were dropped or withdrawn, and the rest should wait. An accelerator that is free earlier is then
 * returned. It is true only in this case: a batch whose head was offered as it is was due, and declining it twice would
 * never end.
 */
function isNotDue(model: ModelThread, grant: Grant, headBefore: Request | undefined): boolean {
  if (model.awaited <= grant.freeAt || model.awaited - delay(model, model.batchSize) <= model.now) return false;
  if (model.skipped > 0) return false; // overload: a later start would serve no more
  const head = model.first;
  return head !== headBefore || head !== model.offeredHead || grant.offerSeq < model.headOfferSeq;
}

export function batchFinished(
  model: ModelThread,
  at: Instant,
  batchId: BatchId,
  out: ModelEffects,
  run?: Micros,
  end?: Instant,
): void {
  advance(model, at);
  if (model.dynamic === undefined) noteEnd(model, batchId, end);
  else if (run !== undefined) {
    const planned = model.inFlightBatches.find(batchId)?.expectedRun;
    if (planned !== undefined) model.dynamic.ran(planned, run);
  }
  const wasFull = model.inFlightBatches.isFull(at);
  if (model.inFlightBatches.release(batchId) && wasFull) update(model, out);
}

function noteEnd(model: ModelThread, batchId: BatchId, end: Instant | undefined): void {
  const { reserve, slo, profile, inFlightBatches } = model;
  const batch = end === undefined ? undefined : inFlightBatches.find(batchId);
  // Warm-up requests wait for one another and for measurements.
  if (batch === undefined || batch.requests[0]!.isOwn === true) return;
  // It may have been planned with a profile that is known to be too short by now; on unlike types each has its own.
  const longer = model.fastest === undefined ? profile.latency(batch.requests.length) - batch.expectedRun : 0;
  reserve.note(batch, end!, slo, longer > 0 && longer < Infinity ? longer : 0);
  reserve.choose(model.now, slo, (us) => servedWith(model, us));
}

/** Requests per µs that are served in target batches which keep so much in hand: all, or what accelerators carry. */
function servedWith({ targets, slo, profile, shares: { control } }: ModelThread, us: number): number {
  const b = targets.withReserve(slo, us, control.offered);
  return Math.min(control.offered, (control.accelerators * b) / profile.latency(b));
}

export function batchRefused(model: ModelThread, at: Instant, batchId: BatchId, out: ModelEffects): void {
  advance(model, at);
  putBack(model, batchId, out);
  update(model, out);
}

export function executorLost(model: ModelThread, at: Instant, executor: ActorKey, out: ModelEffects): void {
  advance(model, at);
  for (const batchId of model.inFlightBatches.ofExecutor(executor)) putBack(model, batchId, out);
  update(model, out);
}

type Profiled = Omit<Extract<ModelEvent, { kind: "profile-changed" }>, "kind" | "at">;

export function profileChanged(model: ModelThread, at: Instant, profiled: Profiled, out: ModelEffects): void {
  const { profile, dynamic, unfit, fastest } = profiled;
  advance(model, at);
  changeDynamic(model, dynamic);
  model.unfit = unfit ?? NONE_UNFIT;
  const typical = Math.min(currentTarget(model), profile.batchSizeMax, model.batchSizeMax);
  model.reserve.plansChanged(model.profile.latency(typical), profile.latency(typical), model.slo);
  model.profile = profile;
  model.latencies = profile.byBatchSize;
  model.batchSizeMax = profile.batchSizeMax;
  model.skipped = 0;
  model.fastest = fastest && new FastestPart(fastest, model);
  changeTargets(model);
  update(model, out);
}

type Delays = Readonly<Record<"ctrl" | "perItem" | "respond" | "guard", Micros>>;

export function delaysChanged(model: ModelThread, at: Instant, delays: Delays, out: ModelEffects): void {
  advance(model, at);
  const { ctrl, perItem, respond, guard } = delays;
  // Batchers look four times a second: what is as before decides nothing.
  const isSame = ctrl === model.ctrl && perItem === model.perItem;
  if (isSame && respond === model.respond && guard === model.guard) return;
  model.ctrl = ctrl;
  model.perItem = perItem;
  model.respond = respond;
  model.guard = guard;
  changeTargets(model);
  update(model, out);
}

export function rankerChanged(model: ModelThread, at: Instant, epoch: number, out: ModelEffects): void {
  advance(model, at);
  if (epoch <= model.epoch) return;
  model.epoch = epoch;
  model.offered.batchSize = 0; // the new ranker has seen no offer
  update(model, out);
}

/**
 * Offers to another leader from now on. Epochs of different sub-clusters are not comparable, so the new one may be
 * lower. The caller must not pass on grants of the old leader any more.
 */
export function subClusterChanged(model: ModelThread, at: Instant, epoch: number, out: ModelEffects): void {
  advance(model, at);
  model.epoch = epoch;
  // A separate offer told the old leader to forget its candidate, and the model may come back to that leader.
  model.offered.offerSeq++;
  model.offered.batchSize = 0;
  update(model, out);
}

function changeDynamic(model: ModelThread, profile: Profiled["dynamic"]): void {
  model.skipped = 0;
  if (profile === undefined) model.dynamic = undefined;
  else if (model.dynamic !== undefined) model.dynamic.change(profile);
  else {
    const part = new DynamicPart(profile);
    model.queue.forEach((request) => part.add(request));
    model.later?.forEach((request) => part.addLater(request));
    model.dynamic = part;
  }
}

function changeTargets({ targets, fastest, profile, ctrl, perItem, respond }: ModelThread): void {
  targets.change({ profile, ctrl, perItem, respond });
  fastest?.targets.change({ profile: fastest.profile, ctrl, perItem, respond });
}

function advance(model: ModelThread, at: Instant): void {
  assert(at >= model.now, "time ran backwards");
  model.now = at;
}

/** Checks a grant (M3), and remembers it. @returns whether it is accepted */
function obey(model: ModelThread, grant: Grant): boolean {
  if (grant.thread !== model.thread || grant.term !== model.term) return false;
  if (grant.epoch < model.epoch || model.now > grant.validUntil) return false;
  model.epoch = grant.epoch;
  return model.accepted.accept(model.now, grant);
}

/** Answers a grant, which voids all offers so far (M2). */
function answer(model: ModelThread, grant: Grant, used: boolean, freeAt: Instant, out: ModelEffects): void {
  model.offered.batchSize = 0;
  out.answerGrant(grant, used, freeAt, model.offered.offerSeq, reportedScarcity(model));
}

function dispatch(model: ModelThread, grant: Grant, startAt: Instant, expectedRun: Micros, out: ModelEffects): void {
  const batch: DispatchedBatch = {
    batchId: model.nextBatchId++ as BatchId,
    thread: model.thread,
    term: model.term,
    grant,
    requests: takeChosen(model),
    startAt,
    latest: model.latest,
    frontrun: model.frontrun,
    expectedRun,
    reserve: Math.min(model.reserve.us, Math.max(0, model.latest - startAt)),
    askAt: NEVER,
    askings: 0,
  };
  // A request that aims at a later step was counted as lost when it missed its SLO.
  const first = model.laterSize === 0 ? batch.requests : batch.requests.filter((one) => !(one instanceof LaterRequest));
  model.lead.note(first.length, model.shares.lostCount, model.slo);
  model.inFlightBatches.hold(batch);
  // A batch that ends earlier than planned is followed by a grant a hop after its report, however many wait. That is no
  // idle time, and a hop is a small part of d_ctrl.
  const idleFor = grant.sentAt - grant.freeAt;
  const work = expectedRun * savedInTarget(model, batch.requests.length);
  model.shares.dispatched(first, { idleFor: idleFor > HOP * model.ctrl ? idleFor : 0, run: expectedRun, work });
  out.dispatch(batch);
}

/** The time that a request takes in a target batch, as a fraction of its time in a batch of `b`. */
function savedInTarget({ targets, slo, latencies, batchSizeMax }: ModelThread, b: number): number {
  const target = Math.min(batchSizeMax, targets.forSlo(slo));
  return target <= b ? 1 : (b * latencies[target]!) / (target * latencies[b]!);
}

function takeChosen(model: ModelThread): Request[] {
  if (model.dynamic === undefined) {
    const { skipped, laterSize, batchSize } = model;
    const first = model.queue.takeAt(skipped, batchSize - laterSize);
    return laterSize === 0 ? first : [...first, ...model.later!.take(laterSize)].sort(byDeadline);
  }
  const isLater = model.laterSize > 0;
  const chosen = (isLater ? model.dynamic.later! : model.dynamic.queue).take();
  for (const { ingress, seq } of chosen) (isLater ? model.later! : model.queue).remove(ingress, seq);
  return chosen;
}

/** Requeues the requests of a batch that will not run (T4); `update` then refuses those that can't be met. */
function putBack(model: ModelThread, batchId: BatchId, out: ModelEffects): void {
  for (const request of model.inFlightBatches.takeBack(batchId) ?? []) {
    if (request instanceof LaterRequest) {
      if (!keepLater(model, request)) out.refuse(request.origin, "overloaded", Infinity as Micros);
      continue;
    }
    const added = model.queue.add(request);
    if (added === "full") {
      model.shares.dropped(model.now, request);
      out.refuse(request, "overloaded", Infinity as Micros);
    } else if (added === "added") model.dynamic?.add(request);
  }
}

const byDeadline = (a: Request, b: Request): number => a.deadline - b.deadline || a.seq - b.seq;
