import type { BatchDispatched, BatchRefusal } from "@tutti/protocol";
import type { ActorKey, GpuId, Instant, ThreadId } from "@tutti/units";

/**
 * Far more grants than a leader can give that doesn't hear that it was left; so many moves that an executor's life is
 * too short for the rest of 2^53.
 */
const MOVE_STEP = 2 ** 24;
/** No leader is so far ahead of what we tell it. */
const SEQUENCE_STEP_MAX = 2 ** 32;

/**
 * What an executor obeys (T5): one batch per grant, only of the leader that it has joined, never under an older term
 * than it has seen, never a sequence twice, never after the grant's validity. The check is made when a batch is
 * accepted; an accepted batch runs (T4).
 *
 * Epochs are revisions of one bucket. Within a sub-cluster they only rise, but an executor that moves to another may
 * join a leader with a lower one. So the fence is no bound but the one epoch that was joined last, and moving raises
 * the sequences:
 *
 *   F1. Whoever holds epoch e grants this incarnation only after it has been told by it, in a joining or a heartbeat,
 *       that it obeys e, or the epoch that e succeeds. (A heartbeat that names another sub-cluster counts for nothing,
 *       so a new leader of one that was left never grants it.)
 *   F2. Obeyed is exactly the epoch that was told last. That refuses what a deposed leader sends, what is still on its
 *       way of a leader that was left, whether its epoch is lower or higher, and what it gives while it has not heard
 *       that it was left. What a successor gives comes after its announcement, or is refused.
 *   F3. Grants of a leader that was left are obeyed again only after coming back to it. Coming back raises the
 *       sequences by MOVE_STEP once more, and tells it. What it gave before then is below: one grant at a time, each
 *       takes a message's way at least, and it hears nothing of us for a peer's time-out at most, or is not running. So
 *       they are thousands.
 *   F4. Who is stopped and wakes has joined who it had joined: what comes first was granted for that, and is over by
 *       `validUntil`.
 */
export class Fence {
  readonly #self: ActorKey;
  readonly #terms = new Map<ThreadId, number>();
  readonly #sequences = new Map<GpuId, number>();
  /** Terms that were newer than their model's lease when that was last looked at. */
  readonly #doubted = new Map<ThreadId, number>();
  #epoch = 0;

  constructor(self: ActorKey, gpus: Iterable<GpuId>) {
    this.#self = self;
    for (const gpu of gpus) this.#sequences.set(gpu, 0);
  }

  /** 0: nobody's grants are obeyed. */
  get epoch(): number {
    return this.#epoch;
  }
  sequence(gpu: GpuId): number {
    return this.#sequences.get(gpu) ?? 0;
  }

  /** A promise: nothing older of the same sub-cluster is obeyed from now on. */
  raise(epoch: number): void {
    if (epoch > this.#epoch) this.#epoch = epoch;
  }
  /** To another sub-cluster: F3. `epoch`: its leader's, 0 if it has none. */
  move(epoch: number): void {
    this.#epoch = epoch;
    for (const [gpu, sequence] of this.#sequences) this.#sequences.set(gpu, sequence + MOVE_STEP);
  }
  raiseSequence(gpu: GpuId, grantSeq: number): void {
    if (grantSeq > this.sequence(gpu) && this.#isInReach(gpu, grantSeq)) this.#sequences.set(gpu, grantSeq);
  }
  raiseTerm(thread: ThreadId, term: number): void {
    if (term > (this.#terms.get(thread) ?? 0)) this.#terms.set(thread, term);
  }

  /**
   * The store's word on a term, now and then: one that is still newer than its lease the second time was never written.
   */
  checkTerm(thread: ThreadId, leaseTerm: number): void {
    const known = this.#terms.get(thread) ?? 0;
    const isDoubted = this.#doubted.delete(thread);
    if (known <= leaseTerm) return;
    if (isDoubted) this.#terms.set(thread, leaseTerm);
    else this.#doubted.set(thread, known);
  }

  #isInReach(gpu: GpuId, grantSeq: number): boolean {
    return grantSeq - this.sequence(gpu) <= SEQUENCE_STEP_MAX;
  }

  /** Accepts the batch, or says why not; accepting uses its grant up. */
  admit(batch: BatchDispatched, now: Instant): BatchRefusal | undefined {
    if (batch.executor !== this.#self) return "wrong-incarnation";
    if (batch.epoch !== this.#epoch) return "old-epoch";
    if (batch.term < (this.#terms.get(batch.thread) ?? 0)) return "old-term";
    if (batch.grantSeq <= this.sequence(batch.gpu)) return "old-sequence";
    if (!this.#isInReach(batch.gpu, batch.grantSeq)) return "old-sequence";
    if (now > batch.validUntil) return "expired";
    this.raiseTerm(batch.thread, batch.term);
    this.#sequences.set(batch.gpu, batch.grantSeq);
    return undefined;
  }
}
