/**
 * The candidate of a ModelThread: the batch that it would run on a free accelerator, and the window for it. This file
 * also decides when to report it to the ranker. docs/algorithms.md, A3, and A4's Publish.
 *
 *   CA1. awaited ≤ latest, and after a choice without an accelerator the earliest start is ≤ latest too.
 *   CA2. An offer is sent only when it changes: another size, window or delay. The passing of time is no change,
 *        because the ranker's timers run by its own clock. So most arrivals behind a limited batch cost no offer.
 */
import { ALWAYS, NEVER, earlier, later } from "@tutti/units";
import type { Instant, Micros } from "@tutti/units";
import { adaptationTo, canWaitingPay } from "../adaptation/adaptation.ts";
import { chooseBatch } from "./batch-choice.ts";
import { chooseByLength } from "../dynamic/length-choice.ts";
import { addLater, lastLook } from "./later-choice.ts";
import type { ModelEffects, Request } from "../messages.ts";
import type { ModelThread } from "../model-thread/model-thread-state.ts";
import { aimOf, awaitedStart, withPatience } from "../policy.ts";
import { type FastestPart, chooseTyped } from "./typed-choice.ts";
import { SCARCITY_STEPS, lossLevel, scarcityOf, spareTime } from "../adaptation/scarcity.ts";

/** Step to which an early start is rounded, µs, so that it doesn't depend on which update measured the rate. */
const STEP = 100;

/**
 * Early start of a model that loses requests behind other models' runs, as a multiple of how long it waits for them. A
 * wait begins anywhere in a run, so the mean is half of one: three are a run and what was waiting before.
 */
const BLOCKED_TIMES = 3;

/** Delay from sending the plan of a batch until an executor can start it. */
export const delay = (model: ModelThread, batchSize: number): number => model.ctrl + model.perItem * batchSize;

/** Time that the request takes alone, µs. */
export const alone = (model: ModelThread, request: Request): number =>
  model.dynamic === undefined ? fastLatencies(model)[1]! : model.dynamic.alone(request);

/** Latencies of the fastest type that serves the model. */
const fastLatencies = ({ fastest, latencies }: ModelThread): Float64Array => fastest?.profile.byBatchSize ?? latencies;

/** Chooses again without an accelerator, arms the invalidation timer, and sends a changed offer. A3, A4 Publish. */
export function update(model: ModelThread, out: ModelEffects): void {
  const isDue = model.now >= model.headDueAt && model.now < model.headDueAt + model.ctrl;
  model.keptHead = isDue ? model.offeredHead : undefined; // M7
  choose(model, (model.now + model.ctrl) as Instant, ALWAYS, out, model.fastest);
  const b = model.batchSize;
  model.wakeAt = b === 0 ? NEVER : ((model.latest - delay(model, b) + 1) as Instant);
  // the batch can wait longer
  if (model.skipped > 0) model.wakeAt = earlier(model.wakeAt, lastLook(model, model.queue, fastLatencies(model)));
  // LENGTH-1: the batch that is worth most may leave out the request that is due first.
  if (model.dynamic !== undefined) model.wakeAt = earlier(model.wakeAt, lastLook(model, model.queue));
  if (model.later !== undefined)
    model.wakeAt = earlier(model.wakeAt, lastLook(model, model.later, fastLatencies(model)));
  offer(model, model.inFlightBatches.isFull(model.now) ? 0 : b, out);
}

/**
 * Forms the best batch and its window, and leaves them in the model.
 *
 * @param base - when an executor could start a batch without inputs
 * @param gpuFree - when the granted accelerator is free; `ALWAYS` while none is
 * @param fastest - undefined: what can't run with `model.latencies` is not kept for a faster type
 */
export function choose(
  model: ModelThread,
  base: Instant,
  gpuFree: Instant,
  out: ModelEffects,
  fastest: FastestPart | undefined,
): void {
  if (model.targets.isDue(model.now)) refreshTargets(model);
  if (model.dynamic !== undefined) {
    chooseByLength(model, model.dynamic, base, gpuFree, model.refusals.towards(out, model.now));
    model.first = model.head;
    return;
  }
  const refusals = model.refusals.towards(out, model.now);
  const own =
    fastest === undefined
      ? chooseBatch(model, base, gpuFree, refusals)
      : chooseTyped(model, fastest, base, gpuFree, refusals);
  const b = model.later === undefined ? own : addLater(model, model.later, own, base, gpuFree, refusals, fastest);
  model.batchSize = b;
  const { skipped, queue } = model;
  model.isGrowable = (b < model.batchSizeMax && skipped + b === queue.size) || fastest?.isPlanned === true;
  model.first = skipped === 0 ? model.head : queue.at(skipped);
  if (b === 0) return;
  const head = model.first!;
  const deadline = model.laterSize === 0 ? head.deadline : earlier(head.deadline, model.later!.head()!.deadline);
  const aim = aimOf(head, deadline);
  const planned = fastest?.isPlanned === true ? fastest.profile : model.profile;
  const { batchSizeMax } = planned;
  const latencies = fastest?.isPlanned === true ? planned.byBatchSize : model.latencies;
  model.latest = (deadline - latencies[b]!) as Instant;
  model.expectedRun = latencies[b]! as Micros;
  model.frontrun =
    b === batchSizeMax
      ? ALWAYS
      : ((aim - planned.byBatchSize[b + 1]! - model.perItem - model.guard - model.reserve.us) as Instant);
  if (model.laterSize === b) {
    model.isGrowable = true; // any arrival goes before it
    model.awaited = ALWAYS; // it uses what nobody else does
    return;
  }
  if (model.policy.kind === "deferred") model.awaited = model.frontrun;
  else if (model.policy.kind === "adaptive" && model.sole.isSole) {
    model.awaited = earlier(model.frontrun, (head.arrivedAt + delay(model, b) + soleWait(model, head.slo)) as Instant);
  } else {
    const { frontrun, latest } = model;
    const betaTimesRate = model.policy.kind === "beta-lambda" ? model.profile.beta * model.rate.perMicro(model.now) : 0;
    const others = Math.min(head.slo, Math.max(spare(model, b), blockedOf(model)));
    const early = Math.max(earlyOf(model, b, head.slo), leadOf(model), others);
    const window = { frontrun, latest, headArrivedAt: head.arrivedAt, batchSize: b, batchSizeMax, early };
    model.awaited = awaitedStart(model.policy, window, betaTimesRate);
    if (model.adaptation.gather > 0) {
      const gathered = (head.arrivedAt + delay(model, b) + gatherOf(model)) as Instant;
      model.awaited = later(model.awaited, earlier(frontrun, gathered));
    }
  }
  if (fastest !== undefined) model.awaited = earlier(model.awaited, earlier(fastest.headAwaited, model.latest)); // CA1
  if (model.patience !== 1) {
    model.awaited = withPatience(model.awaited, (head.arrivedAt + delay(model, b)) as Instant, model.patience);
  }
}

/**
 * Time by which a batch starts earlier than frontrun, µs, whether or not accelerators are scarce. It is less for a
 * model that loses no requests and finds accelerators free: it needs no early start, and others may need the
 * accelerator.
 */
function earlyOf(model: ModelThread, batchSize: number, slo: number): number {
  const { adaptation, scarcity, shares } = model;
  const bound = STEP * Math.round((batchSize * model.earlyPerRequest) / STEP);
  const need = Math.max(scarcity.waiting, scarcity.level(shares.lostShare));
  const adapted = Math.round(need * Math.min(adaptation.early * slo, bound));
  if (model.mayWait) return adapted;
  return Math.round(Math.max(scarcity.waiting, 1 - model.scarcityOfOthers / SCARCITY_STEPS) * slo);
}

/** Time by which batches start early because the model loses requests, µs. */
const leadOf = ({ lead, scarcity }: ModelThread): number => STEP * Math.round(lead.at(scarcity.waiting) / STEP);

/** Time by which batches start early because the model loses requests behind other models' runs, µs. */
function blockedOf({ scarcity: { blocked }, shares }: ModelThread): number {
  return blocked === 0 ? 0 : STEP * Math.round((BLOCKED_TIMES * lossLevel(shares.lostShare) * blocked) / STEP);
}

/** Time by which an early start uses only accelerator time that is not scarce, µs. */
function spare(model: ModelThread, batchSize: number): number {
  const { prefer, profile, rate, now } = model;
  if (prefer === "accelerators") return 0;
  return STEP * Math.round(spareTime(profile, batchSize, rate.perMicroOfSlots(now), scarcityOf(model)) / STEP);
}

/** Time that a batch waits from its first request on, µs, where the model gets one accelerator only. */
const soleWait = (model: ModelThread, slo: number): number =>
  STEP * Math.round((model.adaptation.wait * scarcityOf(model) * slo) / STEP);

/**
 * Time that a batch leaves to the rest of a burst, µs. It counts as far as accelerators are idle, as a lead does
 * (LEAD-2): where none is, a candidate that waits for one gathers the rest anyway.
 */
const gatherOf = ({ adaptation, profile, scarcity }: ModelThread): number =>
  Math.round(adaptation.gather * profile.beta * (1 - scarcity.waiting) ** 2);

function refreshTargets(model: ModelThread): void {
  const { now, rate, shares, targets } = model;
  const { isLimiting } = shares;
  // The flood's beginning stays in the window for seconds; requests admitted since then come evenly.
  const dispersion = isLimiting ? 1 : rate.dispersion(now);
  // Where shares limit admission, no more comes in than is served.
  const isOverloaded = shares.isLasting(now) && !isLimiting;
  if (model.policy.kind === "adaptive") {
    model.isOverloaded = isOverloaded;
    model.adaptation = adaptationTo(dispersion, isOverloaded);
    const perMicro = rate.perMicroOfSlots(now);
    model.earlyPerRequest = model.adaptation.span / perMicro;
    model.mayWait = !rate.isKnown(now) || canWaitingPay(model.profile.beta, perMicro);
  }
  targets.refresh(now, rate.perMicro(now), model.adaptation.target, model.reserve.us);
  model.fastest?.targets.refresh(now, rate.perMicro(now), model.adaptation.target, model.reserve.us);
}

/** Sends the candidate if it has another size, window or delay than the last. The passing of time is no change. */
function offer(model: ModelThread, batchSize: number, out: ModelEffects): void {
  const { offered } = model;
  if (batchSize === 0) {
    if (offered.batchSize === 0) return;
    offered.batchSize = 0;
    offered.offerSeq++;
    return out.offer(offered);
  }
  const delayNow = delay(model, batchSize) as Micros;
  const unfit = model.fastest?.isPlanned === true ? model.fastest.unfit : model.unfit;
  const isSame =
    offered.batchSize === batchSize &&
    offered.latest === model.latest &&
    model.offeredAwaited === model.awaited &&
    offered.delay === delayNow &&
    offered.unfit === unfit;
  if (isSame) return;
  const earliest = (model.now + delayNow) as Instant;
  offered.offerSeq++;
  offered.batchSize = batchSize;
  offered.execAt = model.awaited > earliest ? model.awaited : earliest;
  offered.latest = model.latest;
  offered.delay = delayNow;
  offered.unfit = unfit;
  if (offered.takes !== undefined) offered.takes = model.expectedRun;
  model.offeredAwaited = model.awaited;
  const head = model.first;
  const isNewHead = head !== model.offeredHead;
  if (isNewHead || model.now < model.headDueAt) model.headDueAt = (offered.execAt - delayNow) as Instant;
  if (isNewHead) {
    model.offeredHead = head;
    model.headOfferSeq = offered.offerSeq;
  }
  out.offer(offered);
}
