/**
 * RankThread: matches candidates with accelerators. It sees neither requests nor queues, only the newest candidate of
 * each model and when each accelerator is free. docs/algorithms.md, A4 and A5. All comparisons are ≤.
 *
 *   RANK-1. At most one grant per model and one per accelerator is in flight.
 *   RANK-2. W holds only candidates whose model timer fired; there is one match timer, at min free − longest delay in
 *           W, or earlier by RANK-8.
 *   RANK-3. Offers of a model are ordered by (term, offerSeq). While its grant is in flight an offer is kept, but not
 *           acted on; the answer voids every offer up to the one that it names.
 *   RANK-4. A grant that is unanswered when validUntil is past is given up. Offers of its model count again, and the
 *           accelerator itself is asked repeatedly until it settles or is lost. A later answer frees nothing.
 *   RANK-5. An effect is the last thing a transition does, so its receiver may answer from within.
 *   RANK-6. With no candidate and no grant in flight no timer is armed.
 *   RANK-7. A candidate that is late by up to d_ctrl still gets a free accelerator, and late binding makes the batch
 *           smaller. Its model has offered anew by now, but that offer would be as late when it arrives. See the
 *           README.
 *   RANK-8. Where accelerators become free earlier than planned, they are granted earlier by as much, with the planned
 *           time all the same, so nothing that is granted is late. No candidate is given up for that.
 */
import { NEVER, assert, unreachable } from "@tutti/units";
import type { ActorKey, GpuId, Instant, ThreadId } from "@tutti/units";
import { NONE_UNFIT, type UnfitTypes } from "./accelerator-classes.ts";
import { NOBODY } from "./accelerators.ts";
import type { Candidate, RankEffects, RankEvent } from "../messages.ts";
import { isSpare } from "./idle-time.ts";
import { MODELS_MAX, ModelSlot, RankThread, type RankThreadOptions } from "./rank-thread-state.ts";

/** Time after which jobs are looked at again where requests needed the accelerator, µs. */
const LOOK_AGAIN_AFTER = 1_000;
/** Time after which an accelerator that doesn't answer is asked again, µs; a grant's validity if that is longer. */
const ASK_AGAIN_AFTER = 1_000;
export function createRankThread(options: RankThreadOptions): RankThread {
  return new RankThread(options);
}

export function stepRank(rank: RankThread, event: RankEvent, out: RankEffects): void {
  switch (event.kind) {
    case "candidate-offered":
      return candidateOffered(rank, event.at, event.candidate);
    case "grant-answered":
      return grantAnswered(rank, event.at, event);
    case "gpu-joined":
      return gpuJoined(rank, event.at, event);
    case "gpu-freed":
      return gpuFreed(rank, event.at, event);
    case "gpu-lost":
      return gpuLost(rank, event.at, event.gpu, event.executor);
    case "model-gone":
      return modelGone(rank, event.at, event.thread);
    case "ctrl-delay-changed":
      advance(rank, event.at);
      rank.ctrl = event.ctrl;
      return;
    case "clock-reached":
      return rankClockReached(rank, event.at, out);
    default:
      return unreachable(event);
  }
}

/** Time of the next clock-reached; `NEVER` when no timer is armed. A moment that is past means at once. */
export function nextRankWakeAt(rank: RankThread): Instant {
  const models = rank.modelTimers.topPriority;
  const grants = rank.accelerators.timers.topPriority;
  const match = matchAt(rank);
  const jobs = rank.jobs.lookAt;
  const timer = models < grants ? models : grants;
  const work = match < jobs ? match : jobs;
  return (timer < work ? timer : work) as Instant;
}

export function candidateOffered(rank: RankThread, at: Instant, candidate: Readonly<Candidate>): void {
  advance(rank, at);
  const known = rank.slotOf.get(candidate.thread);
  const index = known < 0 ? newSlot(rank, candidate.thread) : known;
  if (index < 0) return;
  const slot = rank.slots[index]!;
  const { term, offerSeq } = candidate;
  if (term < slot.term || (term === slot.term && offerSeq <= slot.offerSeq)) return; // RANK-3
  slot.term = term;
  slot.offerSeq = offerSeq;
  slot.batchSize = candidate.batchSize;
  slot.execAt = candidate.execAt;
  slot.latest = candidate.latest;
  slot.delay = candidate.delay;
  slot.takes = candidate.takes ?? 0;
  if (candidate.unfit.length > 0 || slot.unfit.length > 0) setUnfit(rank, slot, candidate.unfit);
  if (slot.grantedGpu < 0) publish(rank, index, slot);
}

function setUnfit({ accelerators: { classes } }: RankThread, slot: ModelSlot, unfit: UnfitTypes): void {
  if (slot.unfit.length > 0) classes.claim(slot.classes, -1);
  slot.unfit = unfit;
  slot.classes = classes.of(unfit);
  if (unfit.length > 0) classes.claim(slot.classes, 1);
}

type Answer = Omit<Extract<RankEvent, { kind: "grant-answered" }>, "kind" | "at">;

export function grantAnswered(rank: RankThread, at: Instant, answer: Answer): void {
  advance(rank, at);
  const index = rank.slotOf.get(answer.thread);
  if (index < 0 || !(answer.gpu < rank.accelerators.max)) return;
  const slot = rank.slots[index]!;
  if (slot.term === answer.term && answer.offerSeq >= slot.offerSeq) {
    slot.offerSeq = answer.offerSeq;
    forget(rank, index, slot);
  }
  if (slot.term === answer.term) rank.scarcity.report(index, answer.scarcity, at);
  const { gpu, grantSeq } = answer;
  const isInFlight = rank.accelerators.grantedTo(gpu) === index && rank.accelerators.grantSeq(gpu) === grantSeq;
  if (!isInFlight) return; // RANK-4
  if (answer.used) rank.accelerators.early.used(gpu, answer.freeAt);
  else rank.accelerators.decline(gpu);
  rank.accelerators.settle(gpu, answer.freeAt);
  rank.jobs.lookSoon();
  hearAgain(rank, index);
}

type Joining = Omit<Extract<RankEvent, { kind: "gpu-joined" }>, "kind" | "at">;

export function gpuJoined(rank: RankThread, at: Instant, { gpu, executor, type, freeAt, grantSeq }: Joining): void {
  advance(rank, at);
  const { accelerators } = rank;
  if (!(gpu < accelerators.max)) {
    rank.ignored++;
    return;
  }
  if (!accelerators.isInReach(gpu, grantSeq)) return; // GPU-6
  // A repeated announcement of the same incarnation says nothing about a grant that it has not seen yet.
  if (accelerators.isDrivenBy(gpu, executor) && grantSeq < accelerators.grantSeq(gpu)) return;
  const waiting = accelerators.grantedTo(gpu);
  const { changes } = accelerators.classes;
  accelerators.join(gpu, executor, type, freeAt, grantSeq);
  rank.jobs.lookSoon();
  if (accelerators.classes.changes > changes) reclassify(rank);
  if (waiting !== NOBODY) hearAgain(rank, waiting);
}

/** There is a class of accelerators that no candidate knew. */
function reclassify({ accelerators, waiting, slots }: RankThread): void {
  const { classes } = accelerators;
  waiting.grow(classes.count);
  classes.forgetClaims();
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index]!;
    slot.classes = classes.of(slot.unfit);
    if (slot.unfit.length > 0) classes.claim(slot.classes, 1);
    if (!waiting.has(index)) continue;
    const goesFirst = waiting.goesFirst(index);
    waiting.remove(index);
    waiting.add(index, slot, goesFirst);
  }
}

type Freed = Omit<Extract<RankEvent, { kind: "gpu-freed" }>, "kind" | "at">;

export function gpuFreed(rank: RankThread, at: Instant, { gpu, executor, freeAt, grantSeq, ended }: Freed): void {
  advance(rank, at);
  const { accelerators } = rank;
  if (!accelerators.isDrivenBy(gpu, executor)) return;
  if (!accelerators.isInReach(gpu, grantSeq)) return; // GPU-6
  if (grantSeq > accelerators.grantSeq(gpu)) {
    const type = accelerators.typeOf(gpu);
    return gpuJoined(rank, at, { gpu, executor, type, freeAt, grantSeq }); // GPU-5
  }
  if (!accelerators.mayReport(gpu, grantSeq)) return; // GPU-2
  const waiting = accelerators.grantedTo(gpu); // its report has overtaken the model's answer
  const believed = accelerators.freeAt(gpu);
  if (ended === true && believed < Infinity) accelerators.early.saved(gpu, believed - freeAt);
  accelerators.settle(gpu, freeAt);
  rank.jobs.lookSoon();
  if (waiting !== NOBODY) hearAgain(rank, waiting);
}

export function gpuLost(rank: RankThread, at: Instant, gpu: GpuId, executor: ActorKey): void {
  advance(rank, at);
  if (!rank.accelerators.isDrivenBy(gpu, executor)) return;
  const waiting = rank.accelerators.grantedTo(gpu);
  rank.accelerators.leave(gpu);
  if (waiting !== NOBODY) hearAgain(rank, waiting);
}

export function modelGone(rank: RankThread, at: Instant, thread: ThreadId): void {
  advance(rank, at);
  const index = rank.slotOf.get(thread);
  if (index < 0) return;
  const slot = rank.slots[index]!;
  forget(rank, index, slot);
  setUnfit(rank, slot, NONE_UNFIT);
  rank.scarcity.forget(index);
  if (slot.grantedGpu >= 0) rank.accelerators.orphan(slot.grantedGpu); // its expiry asks the accelerator
  rank.slotOf.delete(index);
  rank.spareSlots.push(index);
}

/** Fires everything that is due: model timers, expiries, the match timer, then jobs, until nothing is due. */
export function rankClockReached(rank: RankThread, at: Instant, out: RankEffects): void {
  advance(rank, at);
  while (
    fireModelTimer(rank, at, out) ||
    fireExpiry(rank, at, out) ||
    fireMatchTimer(rank, at, out) ||
    fireJobs(rank, at, out)
  );
}

/** A4, model timer: fires the first that is due. False if none is. */
export function fireModelTimer(rank: RankThread, at: Instant, out: RankEffects): boolean {
  if (rank.modelTimers.topPriority > at) return false;
  advance(rank, at);
  const index = rank.modelTimers.pop();
  const slot = rank.slots[index]!;
  const earliest = at + slot.delay;
  // A9: the timer may be late, or the offer took long to arrive.
  const execAt = slot.execAt > earliest ? slot.execAt : earliest;
  const isLate = execAt > slot.latest;
  const gpu = execAt > slot.latest + rank.ctrl ? -1 : rank.accelerators.firstFreeBy(execAt, slot.classes); // RANK-7
  if (gpu >= 0) grant(rank, index, gpu, out);
  else if (isLate)
    slot.batchSize = 0; // its own invalidation timer makes a new offer
  else rank.waiting.add(index, slot, rank.accelerators.classes.restricts(slot.classes));
  return true;
}

/** A4, match timer: fires it. False if it is not due. */
export function fireMatchTimer(rank: RankThread, at: Instant, out: RankEffects): boolean {
  if (matchAt(rank) > at) return false;
  advance(rank, at);
  const { accelerators, waiting } = rank;
  const index = soonestClass(rank);
  const freeAt = accelerators.leastFree(index);
  while (waiting.leastLatest(index) < freeAt) {
    const slot = waiting.mostUrgent(index);
    waiting.remove(slot);
    rank.slots[slot]!.batchSize = 0; // nothing is free in time: its own invalidation timer makes a new offer
  }
  if (waiting.hasFor(index)) grant(rank, waiting.first(index), accelerators.firstLeastFree(index), out);
  return true;
}

/** A13: grants an accelerator to a batch of jobs, if no request needs it meanwhile. False if nothing is granted. */
export function fireJobs(rank: RankThread, at: Instant, out: RankEffects): boolean {
  const { jobs } = rank;
  if (jobs.lookAt > at) return false;
  advance(rank, at);
  jobs.lookSoon();
  while (jobs.next >= 0) if (grantJobs(rank, at, out)) return true;
  jobs.endLook();
  return false;
}

/** Looks for time for the model with jobs whose turn it is. @returns whether it is granted */
function grantJobs(rank: RankThread, at: Instant, out: RankEffects): boolean {
  const { jobs, accelerators } = rank;
  const index = jobs.next;
  const { delay, takes, classes } = rank.slots[index]!;
  const gpu = accelerators.firstFreeBy(at + delay, classes);
  if (gpu < 0) {
    jobs.pass(index, (accelerators.soonestFree(classes) - delay) as Instant);
    return false;
  }
  const startAt = Math.max(at + delay, accelerators.freeAt(gpu));
  if (!isSpare(rank, at, gpu as GpuId, (startAt + takes) as Instant)) {
    jobs.pass(index, (at + LOOK_AGAIN_AFTER) as Instant);
    return false;
  }
  jobs.endLook();
  jobs.remove(index);
  jobs.lookSoon(); // there may be another accelerator
  grant(rank, index, gpu, out);
  return true;
}

/** Handles an expired grant or a repeated question (RANK-4). False if none is due. */
export function fireExpiry(rank: RankThread, at: Instant, out: RankEffects): boolean {
  const { accelerators } = rank;
  if (accelerators.timers.topPriority > at) return false;
  advance(rank, at);
  const gpu = accelerators.timers.topKey as GpuId;
  const waiting = accelerators.grantedTo(gpu);
  accelerators.orphan(gpu);
  accelerators.timers.set(gpu, at + Math.max(rank.validityTimes * rank.ctrl, ASK_AGAIN_AFTER));
  if (waiting !== NOBODY) hearAgain(rank, waiting);
  out.askGpu(gpu, accelerators.executor(gpu), accelerators.grantSeq(gpu));
  return true;
}

/** Time of the match timer (RANK-2). `NEVER` when W is empty or nothing is ever free; a past moment means at once. */
function matchAt(rank: RankThread): Instant {
  if (rank.waiting.size === 0) return NEVER;
  const index = soonestClass(rank);
  const min = index < 0 ? Infinity : rank.accelerators.leastFree(index);
  if (min === Infinity) return NEVER;
  const { longestDelay } = rank.waiting;
  const lead = rank.accelerators.early.isKnown ? leadOf(rank, index, longestDelay) : 0;
  return (min - longestDelay - lead) as Instant;
}

/** Time by which the match timer stands earlier (RANK-8), µs. */
function leadOf({ accelerators, waiting }: RankThread, index: number, delay: number): number {
  // A candidate that needs an earlier end than planned may yet get it.
  if (waiting.leastLatest(index) < accelerators.leastFree(index)) return 0;
  return accelerators.early.leadOf(accelerators.firstLeastFree(index), delay);
}

/**
 * Class of the accelerator of least (free, id) that a waiting candidate can get; −1: there is none. Nothing else that
 * the candidates of this class can get is free earlier.
 */
function soonestClass({ accelerators, waiting }: RankThread): number {
  const { count } = accelerators.classes;
  if (count === 1) return waiting.hasFor(0) ? 0 : -1;
  let soonest = -1;
  let least = Infinity;
  for (let i = 0; i < count; i++) {
    const freeAt = accelerators.leastFree(i);
    if (!(freeAt <= least) || freeAt === Infinity || !waiting.hasFor(i)) continue;
    if (freeAt === least && accelerators.firstLeastFree(soonest) < accelerators.firstLeastFree(i)) continue;
    soonest = i;
    least = freeAt;
  }
  return soonest;
}

function advance(rank: RankThread, at: Instant): void {
  assert(at >= rank.now, "time ran backwards");
  rank.now = at;
}

/** A4, Publish: sets the model timer of the newest candidate, if it has one. */
function publish(rank: RankThread, index: number, slot: ModelSlot): void {
  rank.waiting.remove(index);
  if (slot.batchSize === 0) forget(rank, index, slot);
  else if (slot.takes > 0) rank.jobs.add(index);
  else {
    const due = slot.execAt - slot.delay;
    rank.modelTimers.set(index, due > rank.now ? due : rank.now, slot.thread);
  }
}

function forget(rank: RankThread, index: number, slot: ModelSlot): void {
  slot.batchSize = 0;
  rank.waiting.remove(index);
  rank.modelTimers.remove(index);
  rank.jobs.remove(index);
}

/** Marks that no grant is in flight to this model any more. The newest candidate that it has offered counts again. */
function hearAgain(rank: RankThread, index: number): void {
  const slot = rank.slots[index]!;
  slot.grantedGpu = -1;
  publish(rank, index, slot);
}

function grant(rank: RankThread, index: number, gpu: number, out: RankEffects): void {
  const slot = rank.slots[index]!;
  rank.waiting.remove(index);
  const freeAt = rank.accelerators.freeAt(gpu) as Instant;
  const validUntil = (rank.now + rank.validityTimes * rank.ctrl) as Instant;
  slot.grantedGpu = gpu;
  rank.accelerators.early.granted(gpu, freeAt > rank.now ? freeAt : rank.now);
  const grantSeq = rank.accelerators.grant(gpu, index, validUntil + 1);
  out.grant({
    thread: slot.thread,
    term: slot.term,
    offerSeq: slot.offerSeq,
    gpu: gpu as GpuId,
    executor: rank.accelerators.executor(gpu),
    epoch: rank.epoch,
    grantSeq,
    freeAt,
    sentAt: rank.now,
    validUntil,
    scarcity: rank.scarcity.at(rank.now),
  });
}

function newSlot(rank: RankThread, thread: ThreadId): number {
  const index = rank.spareSlots.pop() ?? rank.slots.length;
  if (index >= MODELS_MAX) {
    rank.ignored++;
    return -1;
  }
  rank.slots[index] = new ModelSlot(thread);
  rank.slotOf.set(thread, index);
  return index;
}
