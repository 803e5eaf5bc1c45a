/**
 * Requests of a static model that have missed a step of their costs (docs/algorithms.md, B8) use what the others leave:
 * the room in a batch that takes all others, and accelerators that nobody else asks for. Whoever can still meet its SLO
 * goes before them, since its answer saves more.
 *
 *   LATE-1. They never make a batch of others smaller, nor one of its members late.
 *   LATE-2. One that can't meet its step even alone, on the fastest type that serves the model, is dropped, and falls
 *           back to the step after that, if it has one.
 */
import { DeadlineQueue } from "@tutti/collections";
import { ALWAYS, type Instant, NEVER } from "@tutti/units";
import { chooseBatch, finish, largest, refuse } from "./batch-choice.ts";
import type { LaterRequest } from "./later-request.ts";
import type { ModelEffects, Request } from "../messages.ts";
import type { ModelThread } from "../model-thread/model-thread-state.ts";
import { type FastestPart, chooseLaterTyped } from "./typed-choice.ts";

/** Queues a request for its later step, unless it is queued already. @returns false: there is no room */
export function keepLater(model: ModelThread, request: LaterRequest): boolean {
  model.later ??= new DeadlineQueue<Request>(model.queue.capacity);
  const { ingress, seq } = request;
  if (model.queue.has(ingress, seq) || model.later.has(ingress, seq)) return true;
  if (model.queue.size + model.later.size >= model.queue.capacity || model.later.add(request) !== "added") return false;
  model.dynamic?.addLater(request);
  return true;
}

/**
 * Adds them to a batch of `first` others, or makes a batch of them alone.
 *
 * @param fastest - undefined: what can't run with `model.latencies` is not kept for a faster type
 * @returns its size
 */
export function addLater(
  model: ModelThread,
  later: DeadlineQueue<Request>,
  first: number,
  base: Instant,
  gpuFree: Instant,
  out: Pick<ModelEffects, "refuse">,
  fastest: FastestPart | undefined,
): number {
  model.laterSize = 0;
  if (first === 0) {
    const size =
      fastest === undefined
        ? chooseBatch(model, base, gpuFree, out, later)
        : chooseLaterTyped(model, fastest, base, gpuFree, out, later);
    return (model.laterSize = size);
  }
  const { latencies, perItem, batchSizeMax, queue } = model;
  const alone = finish(fastest?.profile.byBatchSize ?? latencies, perItem, base, gpuFree, 1);
  for (let head = later.head(); head !== undefined && alone > head.deadline; head = later.head()) {
    later.shift();
    refuse(model, head, base, gpuFree, 1, out);
  }
  // Before an accelerator is granted, others may still come and take the room.
  if (gpuFree === ALWAYS || first < queue.size || later.size === 0) return first;
  const deadline = Math.min(queue.headDeadline(), later.headDeadline());
  if (finish(latencies, perItem, base, gpuFree, first) > deadline) return first;
  const most = Math.min(batchSizeMax, first + later.size);
  const size = largest(latencies, perItem, base, gpuFree, deadline, first, most);
  model.laterSize = size - first;
  return size;
}

/** When the first of a queue can't end in time any more. @param latencies - default: as planned */
export function lastLook(model: ModelThread, later: DeadlineQueue<Request>, latencies = model.latencies): Instant {
  if (later.size === 0) return NEVER;
  const head = later.head()!;
  const alone = model.dynamic === undefined ? latencies[1]! : model.dynamic.alone(head);
  const at = Math.floor(head.deadline - alone - model.ctrl - model.perItem) + 1;
  return (at > model.now ? at : model.now + 1) as Instant; // rounding must not make it look again at once without end
}
