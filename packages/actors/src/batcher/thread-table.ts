import { IndexedHeap } from "@tutti/collections";
import { MODELS_MAX, type ModelSpec } from "@tutti/protocol";
import { type DispatchedBatch, type ModelThread, nextWakeAt } from "@tutti/scheduling";
import { ALWAYS, BUCKETS_MAX, type Instant, type Micros, NEVER, type ThreadId } from "@tutti/units";
import type { PullCost } from "./pull-cost.ts";

/** One ModelThread of this batcher, with the state that its shell keeps. */
export interface ThreadEntry {
  readonly index: number;
  readonly id: ThreadId;
  readonly spec: ModelSpec;
  readonly bucket: number;
  readonly term: number;
  /** Whether it has jobs (docs/algorithms.md, A13): nothing that is planned or reported for requests counts it. */
  readonly isForJobs: boolean;
  readonly core: ModelThread;
  readonly pullCost: PullCost;
  /** Sub-cluster to whose leader it offers; undefined: its model waits to be placed. */
  subCluster: string | undefined;
  /** Jobs: one alone runs longer than the requests of some model can wait, so none is started. */
  isTooLong: boolean;
  arrivals: number;
  /**
   * Total time of fresh arrivals from their ingress to here. So much of each SLO is spent before a batch can be
   * planned.
   */
  arrivalLagUs: number;
  /**
   * Batches reported done, without those of warm-up requests alone, and the total time from their grants until they
   * could start.
   */
  finished: number;
  startDelayUs: number;
  /** Finished batches that could start only after more time than was reserved for it. */
  lateStarts: number;
  /**
   * Grants, and the total time from when each was due (OfferCoalescer.dueAt) until it arrived. In that time more
   * requests joined than were planned with.
   */
  grants: number;
  grantLagUs: number;
  /** Batches sent to run, and the requests in them, without those for warm-up. */
  batches: number;
  items: number;
  infeasible: number;
  overloaded: number;
  /**
   * State of StallDetector: the requests since the last batch that ran, their first deadline, the arrival of the
   * last, and how often an accelerator was idle past that deadline.
   */
  unanswered: number;
  answerDueAt: Instant;
  askedAt: Instant;
  idleLooks: number;
  /** Whether the thread was overloaded when QuotaPublisher last looked. */
  wasOverloaded: boolean;
}

/** Initial counters of a new thread. */
export const AT_FIRST = {
  isTooLong: false as boolean,
  arrivals: 0,
  arrivalLagUs: 0,
  finished: 0,
  startDelayUs: 0,
  lateStarts: 0,
  grants: 0,
  grantLagUs: 0,
  batches: 0,
  items: 0,
  infeasible: 0,
  overloaded: 0,
  unanswered: 0,
  answerDueAt: NEVER,
  idleLooks: 0,
  askedAt: ALWAYS,
  wasOverloaded: false as boolean,
} as const;

/** Counts a batch that is sent to run, without warm-up requests: nobody asked for those. */
export function countBatch(entry: Pick<ThreadEntry, "batches" | "items">, requests: DispatchedBatch["requests"]): void {
  const items = itemsOf(requests);
  entry.items += items;
  if (items > 0) entry.batches++;
}
function itemsOf(requests: DispatchedBatch["requests"]): number {
  let items = 0;
  for (const { isOwn } of requests) if (isOwn !== true) items++;
  return items;
}

/**
 * Counts a finished batch like `countBatch`. @param startDelay - time from the sending of its grant until it could
 * start
 */
export function countStart(
  entry: Pick<ThreadEntry, "finished" | "startDelayUs" | "lateStarts"> & {
    readonly core: Pick<ModelThread, "ctrl" | "perItem">;
  },
  requests: DispatchedBatch["requests"],
  { batchSize, startDelay }: { readonly batchSize: number; readonly startDelay: Micros },
): void {
  if (itemsOf(requests) === 0) return;
  entry.finished++;
  entry.startDelayUs += startDelay;
  if (startDelay > entry.core.ctrl + entry.core.perItem * batchSize) entry.lateStarts++;
}

/** The ModelThreads of one batcher and one heap of their next timers, so that the process needs one alarm. */
export class ThreadTable {
  readonly #byId = new Map<ThreadId, ThreadEntry>();
  readonly #byIndex: (ThreadEntry | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #wakes = new IndexedHeap(MODELS_MAX * BUCKETS_MAX);

  get size(): number {
    return this.#byId.size;
  }
  get(id: ThreadId): ThreadEntry | undefined {
    return this.#byId.get(id);
  }
  values(): IterableIterator<ThreadEntry> {
    return this.#byId.values();
  }
  nextIndex(): number {
    return this.#free.at(-1) ?? this.#byIndex.length;
  }
  add(entry: ThreadEntry): void {
    if (entry.index === this.#byIndex.length) this.#byIndex.push(entry);
    else {
      this.#free.pop();
      this.#byIndex[entry.index] = entry;
    }
    this.#byId.set(entry.id, entry);
  }
  remove(entry: ThreadEntry): void {
    this.#byId.delete(entry.id);
    this.#byIndex[entry.index] = undefined;
    this.#free.push(entry.index);
    this.#wakes.remove(entry.index);
  }

  /** Updates the thread's timer in the heap, which may have changed. */
  rearm(entry: ThreadEntry): void {
    const at = nextWakeAt(entry.core);
    if (at === Infinity) this.#wakes.remove(entry.index);
    else if (at !== this.#wakes.priority(entry.index)) this.#wakes.set(entry.index, at);
  }
  get nextWakeAt(): Instant {
    return this.#wakes.topPriority as Instant;
  }
  due(now: Instant): ThreadEntry | undefined {
    return this.#wakes.topPriority <= now ? this.#byIndex[this.#wakes.topKey] : undefined;
  }
}
