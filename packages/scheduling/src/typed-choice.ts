/**
 * The choice where the types that serve a model are unlike: docs/algorithms.md, A2. Offers are planned with the slowest
 * of them, but a request that it can't serve in time any more is kept for the fastest.
 *
 *   TYPED-1. A request is dropped only if the fastest type can't serve it in time.
 *   TYPED-2. A slower type takes the first requests that it can serve. Those before them, with earlier deadlines, stay
 *            for faster types.
 *   TYPED-3. A queue in which the slowest can serve nothing is offered to the fastest alone.
 */
import type { LatencyTable } from "@tutti/profile";
import { ALWAYS, type Instant, NEVER } from "@tutti/units";
import type { UnfitTypes } from "./accelerator-classes.ts";
import { type Gathering, chooseBatch, finish, largest } from "./batch-choice.ts";
import { BatchTargets, type TargetInputs } from "./batch-targets.ts";
import type { ModelEffects, Request } from "./messages.ts";
import type { ModelThread } from "./model-thread-state.ts";

/** Latencies on the fastest type that serves a model, where others serve it too. */
export interface FastestType {
  readonly profile: LatencyTable;
  /** All other types. */
  readonly unfit: UnfitTypes;
}

export class FastestPart {
  readonly profile: LatencyTable;
  readonly unfit: UnfitTypes;
  readonly targets: BatchTargets;
  /** Whether the chosen batch is planned with it, and only it can serve the queue (TYPED-3). */
  isPlanned = false;
  /** The latest moment at which the first of all requests should start there; NEVER: it is in the chosen batch. */
  headAwaited: Instant = NEVER;
  readonly #gathering: { -readonly [key in keyof Gathering]: Gathering[key] };

  constructor({ profile, unfit }: FastestType, model: ModelThread, fixedTarget: number) {
    this.profile = profile;
    this.unfit = unfit;
    const { ctrl, perItem, respond, queue, keptHead, isOverloaded } = model;
    this.targets = new BatchTargets(fixedTarget, { profile, ctrl, perItem, respond });
    const { batchSizeMax, byBatchSize: latencies } = profile;
    this.#gathering = {
      ...{ queue, latencies, batchSizeMax, perItem, respond, targets: this.targets, keptHead, isOverloaded },
      skipped: 0,
    };
  }

  changeTargets(inputs: Omit<TargetInputs, "profile">): void {
    this.targets.change({ profile: this.profile, ...inputs });
  }

  /** Drops what can't be served, and chooses as `chooseBatch` does. */
  choose(model: ModelThread, base: Instant, gpuFree: Instant, out: Pick<ModelEffects, "refuse">): number {
    const gathering = this.#gathering;
    gathering.perItem = model.perItem;
    gathering.respond = model.respond;
    gathering.keptHead = model.keptHead;
    gathering.isOverloaded = model.isOverloaded;
    this.isPlanned = false;
    this.headAwaited = NEVER;
    const fastest = chooseBatch(gathering, base, gpuFree, out);
    model.skipped = gathering.skipped;
    if (fastest === 0 || model.latencies[1]! <= gathering.latencies[1]!) return fastest; // granted it is
    const { queue, latencies, perItem, batchSizeMax } = model;
    const first = firstServed(model, base, gpuFree);
    if (first < 0) {
      if (model.isGranted) return (model.skipped = 0);
      this.isPlanned = true;
      return fastest;
    }
    model.skipped = first;
    const waiting = queue.size - first;
    const most = waiting < batchSizeMax ? waiting : batchSizeMax;
    const { deadline } = first === 0 ? queue.head()! : queue.at(first);
    if (first > 0) {
      const head = queue.head()!.deadline;
      this.headAwaited =
        fastest === gathering.batchSizeMax
          ? ALWAYS
          : ((head - gathering.latencies[fastest + 1]! - perItem - model.guard - model.margin.us) as Instant);
    }
    return largest(latencies, perItem, base, gpuFree, deadline, 1, most);
  }
}

/** Place of the first request that the type of `model.latencies` can serve, in a batch of its target; −1: none. */
function firstServed(model: ModelThread, base: number, gpuFree: number): number {
  const { queue, latencies, perItem, targets, batchSizeMax, keptHead } = model;
  const size = queue.size;
  const fits = (request: Request, place: number): boolean => {
    const target = place === 0 && request === keptHead ? 1 : targets.forSlo(request.slo);
    const window = Math.min(target, size - place, batchSizeMax);
    return finish(latencies, perItem, base, gpuFree, window) <= request.deadline;
  };
  if (fits(queue.head()!, 0)) return 0;
  if (size < 2 || !queue.isRun()) return -1;
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
