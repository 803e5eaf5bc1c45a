import type { BatchDispatched, BatchRefusal } from "@tutti/protocol";
import { type ActorKey, type GpuId, type Instant, modelNumberOf } from "@tutti/units";

/**
 * Step of the sequences at a move. It is far more than the grants that a leader can give before it hears of the move,
 * and small enough that 2^53 lasts for the moves of an executor's whole life.
 */
const MOVE_STEP = 2 ** 24;
/** Largest step of a sequence that is accepted: no leader is so far ahead of the sequence reported to it. */
const SEQUENCE_STEP_MAX = 2 ** 32;

/**
 * Decides which grants an executor accepts (T5). It accepts one batch per grant, only of the leader that it has joined,
 * never under an older term than it has seen, never a sequence twice, never after the grant's validity. The check is
 * made when a batch is accepted; an accepted batch runs (T4).
 *
 * Epochs are revisions of one bucket. Within a sub-cluster they only rise, but an executor that moves to another may
 * join a leader with a lower one. So the fence is no bound but the one epoch that was joined last, and moving raises
 * the sequences:
 *
 *   FENCE-1. The holder of epoch e grants to this incarnation only after the executor has reported to it, in a joining
 *            or a heartbeat, that it accepts e, or the epoch that e succeeds. (A heartbeat that names another
 *            sub-cluster counts for nothing, so a new leader of a sub-cluster that the executor left never grants to
 *            it.)
 *   FENCE-2. The executor accepts exactly the epoch that it reported last. That refuses the grants of a deposed leader,
 *            grants still under way from a leader that the executor left, whether its epoch is lower or higher, and
 *            grants that this leader gives before it hears of the move. Grants of a successor come after its
 *            announcement, or are refused.
 *   FENCE-3. Grants of a leader that the executor left are accepted again only after it comes back. Coming back raises
 *            the sequences by MOVE_STEP once more, and reports them. Grants given before then have lower numbers: the
 *            leader gives one at a time, each takes a message's way at least, and the leader hears nothing of the
 *            executor for a peer's time-out at most, or is not running. So they are thousands.
 *   FENCE-4. An executor that was stopped and wakes is still joined to the same leader: the first grants that it reads
 *            were given for that, and expire by `validUntil`.
 */
export class Fence {
  readonly #self: ActorKey;
  /** By a model's number: its threads, of all buckets and of jobs, are served under one lease. */
  readonly #terms = new Map<number, number>();
  readonly #sequences = new Map<GpuId, number>();
  /** Terms that were newer than their model's lease at the last check. */
  readonly #doubted = new Map<number, number>();
  #epoch = 0;

  constructor(self: ActorKey, gpus: Iterable<GpuId>) {
    this.#self = self;
    for (const gpu of gpus) this.#sequences.set(gpu, 0);
  }

  /** 0: no grants are accepted. */
  get epoch(): number {
    return this.#epoch;
  }
  sequence(gpu: GpuId): number {
    return this.#sequences.get(gpu) ?? 0;
  }

  /**
   * Joins a newer leader of the same sub-cluster. This is a promise: from now on no grant of an older one is accepted.
   */
  raise(epoch: number): void {
    if (epoch > this.#epoch) this.#epoch = epoch;
  }
  /** Moves to another sub-cluster (FENCE-3). `epoch`: its leader's, 0 if it has none. */
  move(epoch: number): void {
    this.#epoch = epoch;
    for (const [gpu, sequence] of this.#sequences) this.#sequences.set(gpu, sequence + MOVE_STEP);
  }
  raiseSequence(gpu: GpuId, grantSeq: number): void {
    if (grantSeq > this.sequence(gpu) && this.#isInReach(gpu, grantSeq)) this.#sequences.set(gpu, grantSeq);
  }
  raiseTerm(model: number, term: number): void {
    if (term > (this.#terms.get(model) ?? 0)) this.#terms.set(model, term);
  }

  /**
   * Compares a term with its lease in the store, at intervals. A term that is still newer than its lease the second
   * time was never written.
   */
  checkTerm(model: number, leaseTerm: number): void {
    const known = this.#terms.get(model) ?? 0;
    const isDoubted = this.#doubted.delete(model);
    if (known <= leaseTerm) return;
    if (isDoubted) this.#terms.set(model, leaseTerm);
    else this.#doubted.set(model, known);
  }

  #isInReach(gpu: GpuId, grantSeq: number): boolean {
    return grantSeq - this.sequence(gpu) <= SEQUENCE_STEP_MAX;
  }

  /** Accepts the batch and uses its grant up, or returns the reason for a refusal. */
  admit(batch: BatchDispatched, now: Instant): BatchRefusal | undefined {
    if (batch.executor !== this.#self) return "wrong-incarnation";
    if (batch.epoch !== this.#epoch) return "old-epoch";
    const model = modelNumberOf(batch.thread);
    if (batch.term < (this.#terms.get(model) ?? 0)) return "old-term";
    if (batch.grantSeq <= this.sequence(batch.gpu)) return "old-sequence";
    if (!this.#isInReach(batch.gpu, batch.grantSeq)) return "old-sequence";
    if (now > batch.validUntil) return "expired";
    this.raiseTerm(model, batch.term);
    this.#sequences.set(batch.gpu, batch.grantSeq);
    return undefined;
  }
}
