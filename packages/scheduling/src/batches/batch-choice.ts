/**
 * GetBatch: drops requests at the head of the queue, and chooses how many of the next run together. docs/algorithms.md,
 * A2.
 *
 *   CHOICE-1. finish(b) = max(base + d_data·b, gpuFree) + l(b) never falls with b, so the largest batch is found by
 *             bisection.
 *   CHOICE-2. A dropped request could not have been served later either: finish(w) only grows with time, and w with
 *             arrivals.
 *   CHOICE-3. The batch is a run in deadline order: the first `size` requests of the queue that is left, or under
 *             lasting overload those behind `skipped` others, which stay.
 */
import type { DeadlineQueue } from "@tutti/collections";
import type { Instant, Micros } from "@tutti/units";
import type { ModelEffects, Request } from "../messages.ts";
import type { BatchTargets } from "./batch-targets.ts";

/** Input of the choice; a ModelThread is one. */
export interface Gathering {
  readonly queue: DeadlineQueue<Request>;
  /** l(b) at index b. */
  readonly latencies: Float64Array;
  readonly batchSizeMax: number;
  /** d_data: time that one more input adds until an executor can start. */
  readonly perItem: Micros;
  /** d_resp: time until the answer is with the publisher. */
  readonly respond: Micros;
  readonly targets: BatchTargets;
  /** Time that a batch keeps in hand, where its head can then still run alone. */
  readonly reserve: { readonly us: number };
  /** A head that is dropped only if it can't run even alone, and not for the sake of the target. */
  readonly keptHead: Request | undefined;
  /** Overload lasts: the batch is the one that serves most per time, and waiting heads are not dropped for it. */
  readonly isOverloaded: boolean;
  /** Result: number of requests before the batch. */
  skipped: number;
}

/**
 * Drops the requests that cannot wait, and chooses the batch.
 *
 * @param base - when an executor could start a batch without inputs: now + d_ctrl
 * @param gpuFree - when the accelerator is free; `ALWAYS` while none is granted
 * @param queue - the queue to choose from, in place of `from.queue`
 * @returns the batch size; 0 when the queue is empty
 */
export function chooseBatch(
  from: Gathering,
  base: Instant,
  gpuFree: Instant,
  out: Pick<ModelEffects, "refuse">,
  queue: DeadlineQueue<Request> = from.queue,
): number {
  const { latencies, batchSizeMax, perItem } = from;
  const isOwn = queue === from.queue;
  const seeksRun = isOwn && from.isOverloaded && queue.isRun();
  if (isOwn) from.skipped = 0;
  for (;;) {
    const waiting = queue.size;
    if (waiting === 0) return 0;
    const head = queue.head()!;
    const most = waiting < batchSizeMax ? waiting : batchSizeMax;
    const target = seeksRun || head === from.keptHead ? 1 : from.targets.forSlo(head.slo);
    const window = target < most ? target : most;
    if (finish(latencies, perItem, base, gpuFree, window) <= lastEnd(from, window, head.deadline)) {
      const size = largestKept(from, base, gpuFree, head.deadline, window, most);
      return seeksRun && size < most ? longestRun(from, base, gpuFree, size, most) : size;
    }
    queue.shift();
    refuse(from, head, base, gpuFree, window, out);
  }
}

/**
 * When a window must have ended: by the head's deadline less the reserve, or by the deadline where it is alone (RES-1).
 */
export const lastEnd = ({ reserve }: Pick<Gathering, "reserve">, window: number, deadline: number): number =>
  window === 1 ? deadline : deadline - reserve.us;

/** The largest b in window … most that keeps the reserve in hand; the window itself where that doesn't. */
export function largestKept(
  { latencies, perItem, reserve }: Pick<Gathering, "latencies" | "perItem" | "reserve">,
  base: number,
  gpuFree: number,
  deadline: number,
  window: number,
  most: number,
): number {
  const due = deadline - reserve.us;
  const isKept = reserve.us === 0 || finish(latencies, perItem, base, gpuFree, window) <= due;
  return isKept ? largest(latencies, perItem, base, gpuFree, due, window, most) : window;
}

/** When a batch of b would end. */
export function finish(latencies: Float64Array, perItem: number, base: number, gpuFree: number, b: number): number {
  const ready = base + perItem * b;
  return (ready > gpuFree ? ready : gpuFree) + latencies[b]!;
}

/** The largest b in window … most that ends by the deadline; `window` is known to (CHOICE-1). */
export function largest(
  latencies: Float64Array,
  perItem: number,
  base: number,
  gpuFree: number,
  deadline: number,
  window: number,
  most: number,
): number {
  if (finish(latencies, perItem, base, gpuFree, most) <= deadline) return most;
  let fits = window;
  let fails = most;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (finish(latencies, perItem, base, gpuFree, middle) <= deadline) fits = middle;
    else fails = middle;
  }
  return fits;
}

/**
 * The largest batch that ends in time anywhere in the queue, where it serves more per time than the head's batch; it
 * takes the first requests that can be in a batch of that size. A run of k fits if the kth request from the end can
 * wait for it: finish(k) rises with k and that deadline falls, so bisection finds the largest.
 *
 * @param size - batch of the head
 */
export function longestRun(from: Gathering, base: number, gpuFree: number, size: number, most: number): number {
  const { queue, latencies, perItem, reserve } = from;
  const waiting = queue.size;
  let fits = size;
  let fails = most + 1;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (finish(latencies, perItem, base, gpuFree, middle) <= queue.at(waiting - middle).deadline - reserve.us)
      fits = middle;
    else fails = middle;
  }
  if (fits * latencies[size]! <= size * latencies[fits]!) return size;
  const end = finish(latencies, perItem, base, gpuFree, fits) + reserve.us;
  let late = 0; // the head can't wait for so many
  let inTime = waiting - fits;
  while (inTime - late > 1) {
    const middle = (late + inTime) >> 1;
    if (end <= queue.at(middle).deadline) inTime = middle;
    else late = middle;
  }
  from.skipped = inTime;
  return fits;
}

/** Refuses a request (T3): as "infeasible" if it could not have run even alone, otherwise to keep batches efficient. */
export function refuse(
  from: Pick<Gathering, "latencies" | "perItem" | "respond">,
  request: Request,
  base: number,
  gpuFree: number,
  window: number,
  out: Pick<ModelEffects, "refuse">,
): void {
  const alone = finish(from.latencies, from.perItem, base, gpuFree, 1);
  const isInfeasible = alone > request.deadline;
  const end = isInfeasible ? alone : finish(from.latencies, from.perItem, base, gpuFree, window);
  out.refuse(request, isInfeasible ? "infeasible" : "overloaded", (end - request.arrivedAt + from.respond) as Micros);
}
