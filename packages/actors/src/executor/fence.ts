import type { BatchDispatched, BatchRefusal } from "@tutti/protocol";
import type { ActorKey, GpuId, Instant, ThreadId } from "@tutti/units";

/**
 * What an executor obeys (T5): one batch per grant, never under an older epoch or term than it has seen, never a sequence twice, never after the grant's
 * validity. The check is made when a batch is accepted; an accepted batch runs (T4).
 */
export class Fence {
  readonly #self: ActorKey;
  readonly #terms = new Map<ThreadId, number>();
  readonly #sequences = new Map<GpuId, number>();
  #epoch = 0;

  constructor(self: ActorKey) {
    this.#self = self;
  }

  get epoch(): number {
    return this.#epoch;
  }
  sequence(gpu: GpuId): number {
    return this.#sequences.get(gpu) ?? 0;
  }

  /** A promise: nothing older is obeyed from now on. */
  raise(epoch: number): void {
    if (epoch > this.#epoch) this.#epoch = epoch;
  }
  raiseSequence(gpu: GpuId, grantSeq: number): void {
    if (grantSeq > this.sequence(gpu)) this.#sequences.set(gpu, grantSeq);
  }
  raiseTerm(thread: ThreadId, term: number): void {
    if (term > (this.#terms.get(thread) ?? 0)) this.#terms.set(thread, term);
  }

  /** Accepts the batch, or says why not; accepting uses its grant up. */
  admit(batch: BatchDispatched, now: Instant): BatchRefusal | undefined {
    if (batch.executor !== this.#self) return "wrong-incarnation";
    if (batch.epoch < this.#epoch) return "old-epoch";
    if (batch.term < (this.#terms.get(batch.thread) ?? 0)) return "old-term";
    if (batch.grantSeq <= this.sequence(batch.gpu)) return "old-sequence";
    if (now > batch.validUntil) return "expired";
    this.raise(batch.epoch);
    this.raiseTerm(batch.thread, batch.term);
    this.#sequences.set(batch.gpu, batch.grantSeq);
    return undefined;
  }
}
