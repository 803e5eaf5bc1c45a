/**
 * The batches that a model has sent out and that nobody has reported done, so that a lost one can be put back.
 * docs/architecture.md, section 4; M1.
 *
 *   HB1. At most `max` batches are held. A batch whose last deadline is past is forgotten when room is needed: nothing of
 *        it could be met again, and its ingress has answered.
 *   HB2. What is withdrawn while its batch is out does not come back with it.
 */
import type { ActorKey, BatchId, Instant, Micros, RequestSeq } from "@tutti/units";
import type { DispatchedBatch, Request } from "./messages.ts";

export class HeldBatches {
  readonly #max: number;
  readonly #held = new Map<BatchId, DispatchedBatch>();
  /** Of `#held`, which every look at the model asks for. */
  #size = 0;
  /** Requests withdrawn from a held batch: rare, so kept apart. */
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
    this.#held.set(batch.batchId, batch);
    this.#size = this.#held.size;
    this.#sweepDue = -Infinity;
  }
  /** As it was planned; undefined if the batch is not held. */
  expectedRun(batchId: BatchId): Micros | undefined {
    return this.#held.get(batchId)?.expectedRun;
  }
  /** True if the batch was held. */
  release(batchId: BatchId): boolean {
    if (this.#withdrawn.size > 0) this.#withdrawn.delete(batchId);
    const wasHeld = this.#held.delete(batchId);
    if (wasHeld) this.#size--;
    return wasHeld;
  }

  /** Releases the batch and gives what of it is still wanted, in deadline order; undefined if it isn't held. */
  takeBack(batchId: BatchId): Request[] | undefined {
    const batch = this.#held.get(batchId);
    if (batch === undefined) return undefined;
    const withdrawn = this.#withdrawn.get(batchId);
    this.release(batchId);
    return withdrawn === undefined ? batch.requests : batch.requests.filter((request) => !withdrawn.has(request));
  }
  /** The held batches of one executor, oldest first. */
  ofExecutor(executor: ActorKey): BatchId[] {
    return [...this.#held.values()].filter((b) => b.grant.executor === executor).map((b) => b.batchId);
  }

  withdraw(ingress: ActorKey, seq: RequestSeq): void {
    this.#withdrawWhere((request) => request.seq === seq && request.ingress === ingress);
  }
  withdrawIngress(ingress: ActorKey): void {
    this.#withdrawWhere((request) => request.ingress === ingress);
  }

  #withdrawWhere(isWithdrawn: (request: Request) => boolean): void {
    for (const { batchId, requests } of this.#held.values()) {
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
    for (const { batchId, requests } of this.#held.values()) {
      const lastDeadline = requests[requests.length - 1]!.deadline;
      if (lastDeadline < now) this.release(batchId);
      else this.#sweepDue = Math.min(this.#sweepDue, lastDeadline);
    }
  }
}
