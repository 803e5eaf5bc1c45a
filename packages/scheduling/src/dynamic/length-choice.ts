/**
 * Chooses a batch where running times depend on the input. It takes the requests that are together worth most per unit
 * of accelerator time, instead of the largest run in deadline order (batch-choice.ts).
 *
 *   LENGTH-1. A request is refused only if it can't be expected in time even alone. One that doesn't fit this batch
 *             waits for another. When the first of all can wait no longer, the thread looks again, so that none is
 *             refused as late as at its deadline.
 *   LENGTH-2. While more requests wait than the batch has, it waits for none: its length is the limit.
 *   LENGTH-3. A batch waits only as long as it almost certainly ends in time. Without that, a lone request would wait
 *             until it is as likely late as not, beside an idle accelerator.
 *   LENGTH-4. The accelerator is reported as free when the batch has almost certainly ended.
 */
import { LengthQueue } from "@tutti/dynamic";
import { ALWAYS, type ActorKey, type Instant, type Micros } from "@tutti/units";
import { canWaitingPay } from "../adaptation/adaptation.ts";
import type { ModelEffects, Request } from "../messages.ts";
import type { ModelThread } from "../model-thread/model-thread-state.ts";
import { aimOf, awaitedStart, withPatience } from "../policy.ts";
import { scarcityOf } from "../adaptation/scarcity.ts";
import type { DynamicProfile } from "./dynamic-profile.ts";

/**
 * Part of the SLO by which the adaptive policy starts earlier than frontrun. The next requests and their times are less
 * certain than with static models, and a waiting accelerator is lost to other requests. Of 0 to 0.8, 0.5 keeps most of
 * the finish rate of starting at once and most of the accelerator time that waiting saves.
 */
const EARLY = 0.5;

/**
 * Factor by which a batch is expected to do better with the next request, so that it doesn't start early. It matters
 * most where two together take less time than one alone. A single long request then keeps the accelerator for so long
 * that the next ones can't be paired any more, and so on.
 */
const GAIN = 1.25;

/**
 * Factors by which all times are scaled after a run. Requests are timed alone, on idle accelerators and processors, and
 * few batches are timed at all, so times under load may be far off. The scale settles where one run in ten takes longer
 * than the time planned with a certainty of 0.9: each such run adds 4.5 %, each other takes off 0.5 %.
 */
const SCALE_UP = 1.045;
const SCALE_DOWN = SCALE_UP ** (-1 / 9);
const SCALE_LEAST = 0.5;
const SCALE_GREATEST = 4;

/** State of a dynamic model's thread besides its requests: the profile, and the queue by length. */
export class DynamicPart {
  profile: DynamicProfile;
  readonly queue: LengthQueue<Request>;
  /** Requests that aim at a later step of their costs; undefined until there is one. */
  later: LengthQueue<Request> | undefined = undefined;

  constructor(profile: DynamicProfile) {
    this.profile = profile;
    this.queue = new LengthQueue(profile.likely, profile.certain);
  }

  change(profile: DynamicProfile): void {
    this.profile = profile;
    this.queue.refresh(profile.likely, profile.certain, (request) => this.classOf(request));
    this.later?.refresh(profile.likely, profile.certain, (request) => this.classOf(request));
  }
  add(request: Request): void {
    this.queue.add(request, this.classOf(request));
  }
  addLater(request: Request): void {
    this.later ??= new LengthQueue(this.profile.likely, this.profile.certain);
    this.later.add(request, this.classOf(request));
  }
  remove(request: Request): void {
    if (!this.queue.remove(request)) this.later?.remove(request);
  }
  removeIngress(ingress: ActorKey): void {
    this.queue.removeWhere((request) => request.ingress === ingress);
    this.later?.removeWhere((request) => request.ingress === ingress);
  }
  classOf(request: Request): number {
    return this.profile.classOf(request.app, request.units ?? 0);
  }
  /** Adjusts the scale after a batch that was expected to end within `planned` with a certainty of 0.9. */
  ran(planned: Micros, run: Micros): void {
    const { queue } = this;
    queue.scale = Math.min(
      SCALE_GREATEST,
      Math.max(SCALE_LEAST, queue.scale * (run > planned ? SCALE_UP : SCALE_DOWN)),
    );
  }
  /** Likely running time of the request alone, µs. */
  alone(request: Request): number {
    const { likely } = this.profile;
    return this.queue.scale * likely.needed(likely.levelOf(this.classOf(request)), 0);
  }
}

/** As `choose` of candidate.ts, with the same parameters. */
export function chooseByLength(
  model: ModelThread,
  dynamic: DynamicPart,
  base: Instant,
  gpuFree: Instant,
  out: Pick<ModelEffects, "refuse">,
): void {
  const { queue, later, profile } = dynamic;
  const alone = Math.max(base + model.perItem, gpuFree);
  queue.dropUntil(alone, (request, needed) => {
    model.queue.remove(request.ingress, request.seq);
    const feasible = Math.ceil(alone + needed - request.arrivedAt + model.respond) as Micros;
    out.refuse(request, "infeasible", feasible);
  });
  if (later !== undefined) later.scale = queue.scale;
  if (later !== undefined && later.size > 0) dropLate(model, later, alone, out);
  // Requests that can still meet their SLOs go first (B8).
  const isLater = queue.size === 0 && later !== undefined;
  const { size, level, place, deadline, needed, certain } = (isLater ? later : queue).choose(
    base,
    model.perItem,
    gpuFree,
  );
  const { sizes } = profile.likely;
  model.batchSize = size;
  model.laterSize = isLater ? size : 0;
  model.isGrowable = size === queue.size && place + 1 < sizes.length;
  if (size === 0) return;
  // LENGTH-4: an accelerator that is granted again too soon has batches waiting behind one that still runs. An earlier
  // end is reported by itself.
  model.expectedRun = Math.ceil(certain) as Micros;
  model.latest = Math.floor(deadline - needed) as Instant;
  model.frontrun = ALWAYS;
  if (isLater) model.isGrowable = true; // any arrival goes before it
  if (model.isGrowable && place + 1 < sizes.length) {
    const next = queue.scale * profile.certain.needed(level, place + 1);
    // Where more requests take less time, the batch as it is becomes late first. The grant must be here before the
    // batch's own timer.
    const aim = isLater ? deadline : aimOf(model.queue.head()!, deadline);
    const grown = aim - next - model.perItem - model.guard;
    const asItIs = aim - certain - model.perItem - model.guard - model.ctrl;
    model.frontrun = Math.floor(Math.min(grown, asItIs)) as Instant;
  }
  // A granted accelerator waits for no more requests: the batch was due.
  if (gpuFree !== ALWAYS || !model.isGrowable || isLater) model.awaited = ALWAYS;
  else model.awaited = awaited(model, model.policy.kind === "adaptive" ? earlyOf(model, dynamic, level, place) : 0);
}

/** Drops the requests that would most likely miss their later step even alone; each may have one after that. */
function dropLate(
  model: ModelThread,
  later: LengthQueue<Request>,
  alone: number,
  out: Pick<ModelEffects, "refuse">,
): void {
  const dropped: { readonly request: Request; readonly feasible: Micros }[] = [];
  later.dropUntil(alone, (request, needed) => {
    model.later!.remove(request.ingress, request.seq);
    dropped.push({ request, feasible: Math.ceil(alone + needed - request.arrivedAt + model.respond) as Micros });
  });
  for (const { request, feasible } of dropped) out.refuse(request, "infeasible", feasible);
}

/** Part of the SLO by which a batch of the adaptive policy may start earlier than frontrun. */
function earlyOf(model: ModelThread, dynamic: DynamicPart, level: number, place: number): number {
  const { rate, now, prefer } = model;
  const { likely } = dynamic.profile;
  const { scale } = dynamic.queue;
  const [size, next] = [likely.sizes[place]!, likely.sizes[place + 1]!];
  const perRequest = (scale * likely.expected(level, place)) / size;
  const run = scale * likely.expected(level, place + 1);
  if (prefer === "latency" && run / next >= scarcityOf(model) * perRequest) return 1;
  /** Arrivals per µs of groups of as many requests as would join. */
  const perMicro = (rate.perMicroOfSlots(now) * likely.shareUpTo(level)) / (next - size);
  // Accelerator time is worth more if the batch waits for them: the idle time until they come counts too.
  if (perMicro > 0 && (GAIN * (1 / perMicro + run)) / next < perRequest) return 0;
  return canWaitingPay(perRequest * next - run, perMicro) || !rate.isKnown(now) ? EARLY : 1;
}

/** @param part - fraction of the SLO by which it may start early */
function awaited(model: ModelThread, part: number): Instant {
  const { frontrun, latest, batchSize } = model;
  const head = model.queue.head()!;
  const early = Math.round(part * head.slo);
  const window = { frontrun, latest, headArrivedAt: head.arrivedAt, batchSize, batchSizeMax: Infinity, early };
  const full = awaitedStart(model.policy, window, Infinity);
  const earliest = (head.arrivedAt + model.ctrl + model.perItem * batchSize) as Instant;
  return withPatience(full, earliest, model.patience);
}
