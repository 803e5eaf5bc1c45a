/**
 * The choice where the types that serve a model are unlike: docs/algorithms.md, A2. Offers are planned with the slowest
 * of them, but a request that it can't serve in time any more is kept for the fastest.
 *
 *   TYPED-1. A request is dropped only if the fastest type can't serve it in time.
 *   TYPED-2. A slower type takes the first requests that it can serve. Those before them, with earlier deadlines, stay
 *            for faster types. Where some stay anyway, it takes the first that serve most per time: a larger batch of
 *            later ones.
 *   TYPED-3. A queue in which the slower type can serve nothing is planned with the fastest, and offered to it alone.
 *   TYPED-4. A batch ends in time by the latencies that it is planned with: only these choose its first request and its
 *            size, and those of the fastest type choose what is dropped before.
 */
import type { DeadlineQueue } from "@tutti/collections";
import type { LatencyTable } from "@tutti/profile";
import { ALWAYS, type Instant, NEVER } from "@tutti/units";
import type { UnfitTypes } from "../rank-thread/accelerator-classes.ts";
import type { BatchTargets } from "./batch-targets.ts";
import { chooseBatch, finish, largest, largestKept, lastEnd, longestRun } from "./batch-choice.ts";
import type { ModelEffects, Request } from "../messages.ts";
import type { ModelThread } from "../model-thread/model-thread-state.ts";

/** The fastest type that serves a model, where slower ones serve it too. */
export interface FastestType {
  readonly profile: LatencyTable;
  /** All types that take longer for any batch. */
  readonly unfit: UnfitTypes;
}

export class FastestPart {
  readonly profile: LatencyTable;
  readonly unfit: UnfitTypes;
  readonly targets: BatchTargets;
  /** Whether the chosen batch is planned with it (TYPED-3). */
  isPlanned = false;
  /** The latest moment at which the first of all requests should start there; NEVER: it is in the chosen batch. */
  headAwaited: Instant = NEVER;

  constructor({ profile, unfit }: FastestType, model: ModelThread) {
    this.profile = profile;
    this.unfit = unfit;
    const { ctrl, perItem, respond } = model;
    this.targets = model.targets.copyFor({ profile, ctrl, perItem, respond });
  }
}

/** Drops what even the fastest can't serve, and chooses as `chooseBatch` does, for `model.latencies` or the fastest. */
export function chooseTyped(
  model: ModelThread,
  fastest: FastestPart,
  base: Instant,
  gpuFree: Instant,
  out: Pick<ModelEffects, "refuse">,
): number {
  const { latencies, queue, batchSizeMax } = model;
  const { byBatchSize: fast } = fastest.profile;
  fastest.isPlanned = false;
  fastest.headAwaited = NEVER;
  const size = chooseByFastest(model, fastest, base, gpuFree, out, queue);
  if (size === 0 || latencies === fast) return size;
  const first = firstServed(model, base, gpuFree);
  if (first < 0) {
    fastest.isPlanned = true;
    return size;
  }
  model.skipped = first;
  if (first > 0) fastest.headAwaited = size === batchSizeMax ? ALWAYS : frontrun(model, queue.head()!, fast[size + 1]!);
  const waiting = queue.size - first;
  const { deadline } = first === 0 ? queue.head()! : queue.at(first);
  const own = largestKept(model, base, gpuFree, deadline, 1, Math.min(waiting, batchSizeMax));
  if (first === 0 || own === batchSizeMax) return own;
  return longestRun(model, base, gpuFree, own, Math.min(queue.size, batchSizeMax));
}

/** Drops what even the fastest can't serve of a queue, and chooses for it. */
function chooseByFastest(
  model: ModelThread,
  { profile, targets: ownTargets }: FastestPart,
  base: Instant,
  gpuFree: Instant,
  out: Pick<ModelEffects, "refuse">,
  queue: DeadlineQueue<Request>,
): number {
  const { latencies, targets } = model;
  model.latencies = profile.byBatchSize;
  model.targets = ownTargets;
  const size = chooseBatch(model, base, gpuFree, out, queue);
  model.targets = targets;
  model.latencies = latencies;
  return size;
}

/**
 * Chooses for requests that aim at a later step, where no others wait: with the fastest where `latencies` are too long.
 */
export function chooseLaterTyped(
  model: ModelThread,
  fastest: FastestPart,
  base: Instant,
  gpuFree: Instant,
  out: Pick<ModelEffects, "refuse">,
  later: DeadlineQueue<Request>,
): number {
  const { latencies, perItem, batchSizeMax } = model;
  const size = chooseByFastest(model, fastest, base, gpuFree, out, later);
  if (size === 0 || latencies === fastest.profile.byBatchSize) return size;
  const { deadline } = later.head()!;
  fastest.isPlanned = finish(latencies, perItem, base, gpuFree, 1) > deadline;
  if (fastest.isPlanned) return size;
  return largest(latencies, perItem, base, gpuFree, deadline, 1, Math.min(later.size, batchSizeMax));
}

const frontrun = ({ perItem, guard, reserve }: ModelThread, { deadline }: Request, latency: number): Instant =>
  (deadline - latency - perItem - guard - reserve.us) as Instant;

/** Place of the first request that can wait for its window with `model.latencies`; −1: none. */
function firstServed(model: ModelThread, base: number, gpuFree: number): number {
  const { queue, latencies, perItem, targets, batchSizeMax, keptHead } = model;
  const size = queue.size;
  const fits = (request: Request, place: number): boolean => {
    const target = place === 0 && request === keptHead ? 1 : targets.forSlo(request.slo);
    const window = Math.min(target, size - place, batchSizeMax);
    return finish(latencies, perItem, base, gpuFree, window) <= lastEnd(model, window, request.deadline);
  };
  if (fits(queue.head()!, 0)) return 0;
  if (size < 2) return -1;
  queue.makeRun();
  if (!fits(queue.at(size - 1), size - 1)) return -1;
  let late = 0;
  let inTime = size - 1;
  while (inTime - late > 1) {
    const middle = (late + inTime) >> 1;
    if (fits(queue.at(middle), middle)) inTime = middle;
    else late = middle;
  }
  return inTime;
}
