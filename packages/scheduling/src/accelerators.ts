/**
 * The ranker's record of each accelerator: when it is free, its executor, and the grant that is in flight.
 *
 *   GPU-1. free is +Infinity while a grant is in flight, and from its expiry until the accelerator itself has answered.
 *   GPU-2. grantSeq only rises; a report about any but the newest grant is ignored. One that was declined never reached
 *          the accelerator, so reports about the grant before it count again.
 *   GPU-3. A timer is armed for every grant in flight and every unanswered question, and for nothing else.
 *   GPU-4. Memory grows with the largest id that has joined, not with the largest possible id: a ranker that takes the
 *          lead has no time to allocate.
 *   GPU-5. A report with a sequence beyond the newest counts as a join. The accelerator went on under a predecessor
 *          after our last report of it, and it accepts no grant of ours up to that sequence.
 *   GPU-6. A sequence further ahead than grants can bring it is invalid.
 */
import { IndexedHeap, MinTree } from "@tutti/collections";
import type { ActorKey, GpuId } from "@tutti/units";

const NO_EXECUTOR = 0;

/** Number of ids with room at first. */
const ROOM = 16;

/** Furthest that a sequence may be ahead: an executor accepts none beyond (Fence). */
const REACH = 2 ** 32;

/** Stands for a slot: nothing waits for the answer (any more). */
export const NOBODY = -1;

export class Accelerators {
  readonly max: number;
  readonly free: MinTree;
  /** Expiry of the grant in flight, or the time of the next question. */
  readonly timers: IndexedHeap;
  #executors = new Float64Array(ROOM);
  /** 1: its sequence is known, even while it has no executor. */
  #isCounted = new Uint8Array(ROOM);
  #grantSeqs = new Float64Array(ROOM);
  /** The oldest grant that a report may be about: the newest that was not declined. */
  #reportable = new Float64Array(ROOM);
  /** `#reportable` as it was before the grant in flight. */
  #reportableBefore = new Float64Array(ROOM);
  /** Slot + 1 of the model that a grant in flight went to; 0: no grant in flight. */
  #grantedTo = new Int32Array(ROOM);
  #joined = 0;

  /** @param max - ids are 0 … max − 1 */
  constructor(max: number) {
    this.max = max;
    this.free = new MinTree(max);
    this.timers = new IndexedHeap(max);
  }

  get joined(): number {
    return this.#joined;
  }
  isDrivenBy(gpu: GpuId, executor: ActorKey): boolean {
    return gpu < this.#executors.length && this.#executors[gpu] === executor;
  }
  executor(gpu: number): ActorKey {
    return this.#executors[gpu]! as ActorKey;
  }
  grantSeq(gpu: number): number {
    return this.#grantSeqs[gpu]!;
  }
  /** True if a report about this grant counts (GPU-2). */
  mayReport(gpu: number, grantSeq: number): boolean {
    return grantSeq >= this.#reportable[gpu]! && grantSeq <= this.#grantSeqs[gpu]!;
  }
  /**
   * True if a report is about a grant before the newest, although the newest has been answered. Then the newest grant
   * was lost, or its answer was wrong.
   */
  isOutdated(gpu: number, grantSeq: number): boolean {
    if (gpu >= this.#grantSeqs.length || this.#grantedTo[gpu] !== 0 || this.timers.has(gpu)) return false;
    return grantSeq < this.#reportable[gpu]!;
  }
  /** The slot that the grant in flight went to; NOBODY if there is none in flight. */
  grantedTo(gpu: number): number {
    return gpu < this.#grantedTo.length ? this.#grantedTo[gpu]! - 1 : NOBODY;
  }

  /** True if this sequence is valid (GPU-6). */
  isInReach(gpu: number, grantSeq: number): boolean {
    return gpu >= this.#isCounted.length || this.#isCounted[gpu] === 0 || grantSeq - this.#grantSeqs[gpu]! <= REACH;
  }
  /** Makes the next reported sequence count, even if it is lower. */
  forgetSequence(gpu: number): void {
    this.#isCounted[gpu] = 0;
  }

  join(gpu: GpuId, executor: ActorKey, freeAt: number, grantSeq: number): void {
    if (gpu >= this.#executors.length) this.#grow(gpu);
    if (this.#executors[gpu] === NO_EXECUTOR) this.#joined++;
    this.#executors[gpu] = executor;
    if (this.#isCounted[gpu] === 0 || grantSeq > this.#grantSeqs[gpu]!) this.#grantSeqs[gpu] = grantSeq;
    this.#isCounted[gpu] = 1;
    this.#reportable[gpu] = grantSeq;
    this.settle(gpu, freeAt);
  }
  /** Marks a grant to `slot` as in flight (GPU-1). @returns its sequence */
  grant(gpu: number, slot: number, expiresAt: number): number {
    this.free.set(gpu, Infinity);
    this.#grantedTo[gpu] = slot + 1;
    this.timers.set(gpu, expiresAt);
    this.#reportableBefore[gpu] = this.#reportable[gpu]!;
    return (this.#reportable[gpu] = ++this.#grantSeqs[gpu]!);
  }
  /** Marks the grant in flight as unused. */
  decline(gpu: number): void {
    this.#reportable[gpu] = this.#reportableBefore[gpu]!;
  }
  /** Detaches the grant in flight from its slot. The accelerator stays unavailable until it settles. */
  orphan(gpu: number): void {
    this.#grantedTo[gpu] = 0;
  }
  /** Sets when this accelerator is free; +Infinity: not for now. */
  settle(gpu: number, freeAt: number): void {
    this.#grantedTo[gpu] = 0;
    this.timers.remove(gpu);
    this.free.set(gpu, freeAt);
  }
  leave(gpu: number): void {
    this.#executors[gpu] = NO_EXECUTOR;
    this.#joined--;
    this.settle(gpu, Infinity);
  }

  #grow(gpu: GpuId): void {
    const room = 2 ** Math.ceil(Math.log2(gpu + 1));
    const widened = <A extends Uint8Array | Int32Array | Float64Array>(from: A, to: A): A => (to.set(from), to);
    this.#executors = widened(this.#executors, new Float64Array(room));
    this.#isCounted = widened(this.#isCounted, new Uint8Array(room));
    this.#grantSeqs = widened(this.#grantSeqs, new Float64Array(room));
    this.#reportable = widened(this.#reportable, new Float64Array(room));
    this.#reportableBefore = widened(this.#reportableBefore, new Float64Array(room));
    this.#grantedTo = widened(this.#grantedTo, new Int32Array(room));
  }
}
