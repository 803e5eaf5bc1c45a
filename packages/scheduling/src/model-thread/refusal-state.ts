import { type Micros, micros } from "@tutti/units";
import { alone, delay } from "../batches/candidate.ts";
import type { Request } from "../messages.ts";
import type { ModelThread } from "./model-thread-state.ts";

/**
 * The thing that a request waited for when it was refused. `nothing`: it was too late as soon as it came. `batch`: for
 * others to run with. `room`: the queue was full. `share`: its application's or priority's share was used up.
 */
export type WaitedFor = "nothing" | "batch" | "accelerator" | "room" | "share";

/** The queue that a request was refused in. */
export interface RefusalState {
  readonly waitedFor: WaitedFor;
  /** Requests that are still queued. */
  readonly queued: number;
  /** Batches that are sent out and not reported done. */
  readonly inFlight: number;
  /** Time that the request would need by itself, with a free accelerator and all delays. */
  readonly alone: Micros;
}

/**
 * Describes the queue for a request that is being refused, for people who ask why. Call it within `refuse`.
 *
 * @param feasible - as given to `refuse`
 */
export function refusalState(model: ModelThread, request: Request, feasible: Micros): RefusalState {
  const { queue, later, inFlightBatches, respond } = model;
  return {
    waitedFor: waitedFor(model, request, feasible),
    queued: queue.size + (later?.size ?? 0),
    inFlight: inFlightBatches.size,
    alone: micros(Math.ceil(delay(model, 1) + alone(model, request) + respond)),
  };
}

function waitedFor(model: ModelThread, request: Request, feasible: Micros): WaitedFor {
  const { now, queue, refusals, offered, headDueAt } = model;
  // Time was not the cause. Requests that aim at a later step of their costs take no room from those that arrive.
  if (feasible === Infinity) return queue.size >= queue.capacity ? "room" : "share";
  if (refusals.hasJustCome(request, now)) return "nothing";
  // Before its plan is due the batch waits for others to fill it; from then on the ranker grants when it can.
  return offered.batchSize > 0 && now < headDueAt ? "batch" : "accelerator";
}
