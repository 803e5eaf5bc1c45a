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
import { AcceleratorClasses } from "./accelerator-classes.ts";
import { EarlyEnds } from "../adaptation/early-ends.ts";

const NO_EXECUTOR = 0;

/** Number of ids with room at first. */
const ROOM = 16;

/** Furthest that a sequence may be ahead: an executor accepts none beyond (Fence). */
const REACH = 2 ** 32;

/** Stands for a slot: nothing waits for the answer (any more). */
export const NOBODY = -1;

export class Accelerators {
  readonly max: number;
  readonly classes = new AcceleratorClasses();
  readonly early = new EarlyEnds();
  /** When accelerators are free, by class: ids of others are unset there. */
  readonly #free: MinTree[] = [];
  #classOf = new Uint8Array(ROOM);
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

  /** Least time at which one of this class is free; +Infinity: none is for now. */
  leastFree(index: number): number {
    return this.#free[index]!.min;
  }
  /** The smallest id of this class that is free then. */
  firstLeastFree(index: number): number {
    return this.#free[index]!.firstMin();
  }
  /** Least time at which one of these classes is free. */
  soonestFree(classes: number): number {
    let least = Infinity;
    for (let i = 0; i < this.#free.length; i++)
      if (((classes >> i) & 1) === 1) least = Math.min(least, this.#free[i]!.min);
    return least;
  }
  /**
   * An accelerator of these classes that is free by that time; −1: none is. It is of the class that the fewest
   * candidates with unfit types could get, and of the smallest id there. O(classes · log n).
   */
  firstFreeBy(time: number, classes: number): number {
    if (this.#free.length === 1) return (classes & 1) === 1 ? this.#free[0]!.firstAtMost(time) : -1;
    let first = -1;
    let least = Infinity;
    for (let i = 0; i < this.#free.length; i++) {
      if (((classes >> i) & 1) === 0) continue;
      const claims = this.classes.claims(i);
      if (claims > least) continue;
      const gpu = this.#free[i]!.firstAtMost(time);
      if (gpu < 0 || (claims === least && gpu > first)) continue;
      first = gpu;
      least = claims;
    }
    return first;
  }
  /** An accelerator of these classes, none of `taken`, that is free by that time; −1: none is. O(accelerators). */
  findFreeBy(time: number, classes: number, taken: ReadonlySet<number>): number {
    for (let gpu = 0; gpu < this.#executors.length; gpu++) {
      if (this.#executors[gpu] === NO_EXECUTOR || taken.has(gpu)) continue;
      if (((classes >> this.#classOf[gpu]!) & 1) === 1 && this.freeAt(gpu) <= time) return gpu;
    }
    return -1;
  }
  freeAt(gpu: number): number {
    return this.#free[this.#classOf[gpu]!]!.get(gpu);
  }
  classOf(gpu: number): number {
    return this.#classOf[gpu]!;
  }
  typeOf(gpu: number): number {
    return this.classes.typeOf(this.#classOf[gpu]!);
  }

  join(gpu: GpuId, executor: ActorKey, type: number, freeAt: number, grantSeq: number): void {
    if (gpu >= this.#executors.length) this.#grow(gpu);
    if (this.#executors[gpu] === NO_EXECUTOR) this.#joined++;
    else this.#leaveClass(gpu);
    this.#enterClass(gpu, type);
    if (this.#executors[gpu] !== executor) this.early.forget(gpu);
    this.#executors[gpu] = executor;
    if (this.#isCounted[gpu] === 0 || grantSeq > this.#grantSeqs[gpu]!) this.#grantSeqs[gpu] = grantSeq;
    this.#isCounted[gpu] = 1;
    this.#reportable[gpu] = grantSeq;
    this.settle(gpu, freeAt);
  }
  /** Marks a grant to `slot` as in flight (GPU-1). @returns its sequence */
  grant(gpu: number, slot: number, expiresAt: number): number {
    this.#setFree(gpu, Infinity);
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
    this.#setFree(gpu, freeAt);
  }
  leave(gpu: number): void {
    this.#executors[gpu] = NO_EXECUTOR;
    this.#joined--;
    this.settle(gpu, Infinity);
    this.classes.leave(this.#classOf[gpu]!);
  }

  #enterClass(gpu: number, type: number): void {
    const index = (this.#classOf[gpu] = this.classes.enter(type));
    while (this.#free.length <= index) this.#free.push(new MinTree(this.max));
  }
  #leaveClass(gpu: number): void {
    this.#setFree(gpu, Infinity);
    this.classes.leave(this.#classOf[gpu]!);
  }
  #setFree(gpu: number, at: number): void {
    this.#free[this.#classOf[gpu]!]!.set(gpu, at);
  }

  #grow(gpu: GpuId): void {
    const room = 2 ** Math.ceil(Math.log2(gpu + 1));
    const widened = <A extends Uint8Array | Int32Array | Float64Array>(from: A, to: A): A => (to.set(from), to);
    this.#classOf = widened(this.#classOf, new Uint8Array(room));
    this.#executors = widened(this.#executors, new Float64Array(room));
    this.#isCounted = widened(this.#isCounted, new Uint8Array(room));
    this.#grantSeqs = widened(this.#grantSeqs, new Float64Array(room));
    this.#reportable = widened(this.#reportable, new Float64Array(room));
    this.#reportableBefore = widened(this.#reportableBefore, new Float64Array(room));
    this.#grantedTo = widened(this.#grantedTo, new Int32Array(room));
  }
}
