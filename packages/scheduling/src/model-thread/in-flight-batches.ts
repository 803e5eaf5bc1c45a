/**
 * The batches that a model has sent out and that are not reported done. They are kept so that a lost one can be put
 * back. docs/architecture.md, section 4; M1.
 *
 *   HB1. At most `max` batches are held. A batch whose last deadline is past is forgotten when room is needed: none of
 *        its requests could be met again, and its ingress has answered.
 *   HB2. A batch is in its own place of `#recent`, or in `#older` because a newer one has taken that. Batches mostly
 *        end in the order in which they left, so that is rare.
 *   HB3. A request that is withdrawn while its batch is out does not come back with it.
 */
import type { ActorKey, BatchId, Instant, RequestSeq } from "@tutti/units";
import type { DispatchedBatch, Request } from "../messages.ts";

/** Places for recent batches; a power of two. */
const RECENT = 32;

export class InFlightBatches {
  readonly #max: number;
  /** Recent batches by the last digits of their numbers. */
  readonly #recent = new Array<DispatchedBatch | undefined>(RECENT).fill(undefined);
  readonly #older = new Map<BatchId, DispatchedBatch>();
  #size = 0;
  /** Requests withdrawn from a batch in flight: rare, so kept apart. */
  readonly #withdrawn = new Map<BatchId, Set<Request>>();
  #sweepDue = -Infinity;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  isFull(now: Instant): boolean {
    if (this.#size < this.#max) return false;
    if (now > this.#sweepDue) this.#sweep(now);
    return this.#size >= this.#max;
  }
  hold(batch: DispatchedBatch): void {
    const place = placeOf(batch.batchId);
    const before = this.#recent[place];
    if (before !== undefined) this.#older.set(before.batchId, before);
    this.#recent[place] = batch;
    this.#size++;
    this.#sweepDue = -Infinity;
  }
  /** A batch in flight; undefined if it is none. */
  find(batchId: BatchId): DispatchedBatch | undefined {
    const recent = this.#recent[placeOf(batchId)];
    return recent?.batchId === batchId ? recent : this.#older.get(batchId);
  }
  /** Removes a batch. @returns whether it was in flight */
  release(batchId: BatchId): boolean {
    if (this.#withdrawn.size > 0) this.#withdrawn.delete(batchId);
    const place = placeOf(batchId);
    if (this.#recent[place]?.batchId === batchId) this.#recent[place] = undefined;
    else if (this.#older.size === 0 || !this.#older.delete(batchId)) return false;
    this.#size--;
    return true;
  }

  /**
   * Removes the batch. @returns its requests that are still wanted, in deadline order; undefined if it isn't in flight
   */
  takeBack(batchId: BatchId): Request[] | undefined {
    const batch = this.find(batchId);
    if (batch === undefined) return undefined;
    const withdrawn = this.#withdrawn.get(batchId);
    this.release(batchId);
    return withdrawn === undefined ? batch.requests : batch.requests.filter((request) => !withdrawn.has(request));
  }
  /** Batches in flight of one executor, oldest first. */
  ofExecutor(executor: ActorKey): BatchId[] {
    return this.#all()
      .filter((b) => b.grant.executor === executor)
      .map((b) => b.batchId);
  }

  withdraw(ingress: ActorKey, seq: RequestSeq): void {
    this.#withdrawWhere((request) => request.seq === seq && request.ingress === ingress);
  }
  withdrawIngress(ingress: ActorKey): void {
    this.#withdrawWhere((request) => request.ingress === ingress);
  }

  /** Calls back for each batch, in no order; batches may be released meanwhile. */
  forEach(visit: (batch: DispatchedBatch) => void): void {
    if (this.#size === 0) return;
    for (const batch of this.#recent) if (batch !== undefined) visit(batch);
    for (const batch of this.#older.values()) visit(batch);
  }

  /** All batches, the oldest first. */
  #all(): DispatchedBatch[] {
    const recent = this.#recent.filter((batch) => batch !== undefined);
    return [...this.#older.values(), ...recent].sort((a, b) => a.batchId - b.batchId);
  }

  #withdrawWhere(isWithdrawn: (request: Request) => boolean): void {
    for (const { batchId, requests } of this.#all()) {
      for (const request of requests) {
        if (!isWithdrawn(request)) continue;
        const withdrawn = this.#withdrawn.get(batchId);
        if (withdrawn !== undefined) withdrawn.add(request);
        else this.#withdrawn.set(batchId, new Set([request]));
      }
    }
  }

  #sweep(now: Instant): void {
    this.#sweepDue = Infinity;
    for (const { batchId, requests } of this.#all()) {
      const lastDeadline = worthUntil(requests);
      if (lastDeadline < now) this.release(batchId);
      else this.#sweepDue = Math.min(this.#sweepDue, lastDeadline);
    }
  }
}

/** Place of a batch. It works for numbers beyond 2^32 too: `&` cuts off their first digits. */
const placeOf = (batchId: BatchId): number => batchId & (RECENT - 1);

/** The last moment at which an answer to one of a batch's requests is worth anything. */
export function worthUntil(requests: readonly Request[]): Instant {
  let last = requests[requests.length - 1]!.deadline;
  for (const { steps } of requests) {
    const end = steps?.at(-1)?.deadline;
    if (end !== undefined && end > last) last = end;
  }
  return last;
}
