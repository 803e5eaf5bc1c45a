import { IdentityIndex, IndexedHeap } from "@tutti/collections";
import { type Instant, type RequestSeq, assert } from "@tutti/units";
import type { PendingRequest } from "./pending-request.ts";

/** Bounds of the pending requests of one ingress, in total and per application. */
export interface PendingLimits {
  readonly requestsMax: number;
  readonly bytesMax: number;
  readonly appRequestsMax: number;
  readonly appBytesMax: number;
}

/** Slots that are indexed at first; the index doubles when it is full. */
const ROOM = 1_024;
/** Fixed first part of the index keys: all sequences are of this ingress. */
const SELF = 0;

/** Bytes that a held row keeps in memory: it may be a view of the message that it came in (fillRow). */
export const memoryOf = (row: Uint8Array): number => row.buffer.byteLength;

/**
 * The accepted requests of one ingress by sequence, and by the time of their timers. Bounded in number and in bytes
 * (T7).
 *
 * Typed arrays index the numbers. A Map would be rebuilt every few dozen requests, and an old one that V8 has promoted
 * keeps alive all that it held at its end until V8 collects the whole heap.
 */
export class PendingRequests {
  #index = new IdentityIndex(ROOM);
  #nextSeq = 1;
  #size = 0;
  readonly #bySlot: (PendingRequest | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  readonly #timers: IndexedHeap;
  readonly #limits: PendingLimits;
  /** Totals of each application that has requests, and of all jobs. */
  readonly #byApp = new Map<number, { requests: number; bytes: number }>();
  /** Bodies that are being read count as the requests that they will become. */
  #count = 0;
  bytes = 0;

  constructor(options: PendingLimits) {
    this.#limits = options;
    this.#timers = new IndexedHeap(options.requestsMax);
  }

  get size(): number {
    return this.#size;
  }
  /** Requests that count against the limits: those that are held, and bodies that are being read. */
  get count(): number {
    return this.#count;
  }
  get nextTimerAt(): Instant {
    return this.#timers.topPriority as Instant;
  }
  /**
   * The limit that one more request of so many bytes would break; undefined: it fits.
   *
   * @param more - 0: the bytes are of a reserved request, which stays one
   */
  limitReached(account: number, bytes: number, more: 0 | 1 = 1): keyof PendingLimits | undefined {
    const { requestsMax, bytesMax, appRequestsMax, appBytesMax } = this.#limits;
    if (this.#count + more > requestsMax) return "requestsMax";
    if (this.bytes + bytes > bytesMax) return "bytesMax";
    const app = this.#byApp.get(account);
    if ((app?.requests ?? 0) + more > appRequestsMax) return "appRequestsMax";
    return (app?.bytes ?? 0) + bytes > appBytesMax ? "appBytesMax" : undefined;
  }
  /** Reserves room for a body that is being read and was found to fit, until `release`. */
  reserve(account: number, bytes: number): void {
    this.#count++;
    this.bytes += bytes;
    const app = this.#byApp.get(account);
    if (app === undefined) this.#byApp.set(account, { requests: 1, bytes });
    else {
      app.requests++;
      app.bytes += bytes;
    }
  }
  /** Reserves more room for a reserved request, which stays one. It fits, and is released with the rest. */
  extend(account: number, bytes: number): void {
    this.bytes += bytes;
    this.#byApp.get(account)!.bytes += bytes;
  }
  release(account: number, bytes: number): void {
    this.#count--;
    this.bytes -= bytes;
    const app = this.#byApp.get(account)!;
    app.bytes -= bytes;
    if (--app.requests === 0) this.#byApp.delete(account);
  }
  get(seq: number): PendingRequest | undefined {
    const slot = this.#index.get(SELF, seq);
    return slot < 0 ? undefined : this.#bySlot[slot];
  }
  /** Visits the present requests, in no order; the visit must not add or remove any. */
  forEach(visit: (held: PendingRequest) => void): void {
    for (const held of this.#bySlot) if (held !== undefined) visit(held);
  }
  /** A copy of the present requests, in the order of their sequences. */
  values(): PendingRequest[] {
    return this.#bySlot.filter((held) => held !== undefined).sort((a, b) => a.seq - b.seq);
  }

  /** Adds a request that fits, and gives it its number and its slot. */
  add(held: PendingRequest, timerAt: Instant): void {
    assert(this.#count < this.#limits.requestsMax, "there is no room for a request");
    held.seq = this.#nextSeq++ as RequestSeq;
    held.slot = this.#freeSlots.pop() ?? this.#bySlot.length;
    if (held.slot >= this.#index.slots) this.#grow();
    this.#bySlot[held.slot] = held;
    this.#index.put(SELF, held.seq, held.slot);
    this.#size++;
    this.#timers.set(held.slot, timerAt);
    this.reserve(held.account, memoryOf(held.row));
  }

  remove(held: PendingRequest): void {
    if (this.get(held.seq) !== held) return;
    this.#index.delete(held.slot);
    this.#size--;
    this.#bySlot[held.slot] = undefined;
    this.#freeSlots.push(held.slot);
    this.#timers.remove(held.slot);
    this.release(held.account, memoryOf(held.row));
  }

  /** Gives a request a new number. Messages that still name the old one find nothing. */
  renumber(held: PendingRequest): void {
    if (this.get(held.seq) !== held) return;
    this.#index.delete(held.slot);
    held.seq = this.#nextSeq++ as RequestSeq;
    this.#index.put(SELF, held.seq, held.slot);
    // The new number has not been pulled yet.
    [held.batch, held.executor, held.token, held.isCarried] = [0, 0, undefined, false];
    [held.earlierBatch, held.earlierExecutor, held.earlierToken] = [0, 0, undefined];
  }

  /** The request whose timer is due at `now`, or undefined. */
  due(now: Instant): PendingRequest | undefined {
    return this.#timers.topPriority <= now ? this.#bySlot[this.#timers.topKey] : undefined;
  }

  #grow(): void {
    this.#index = new IdentityIndex(2 * this.#index.slots);
    for (const held of this.#bySlot) if (held !== undefined) this.#index.put(SELF, held.seq, held.slot);
  }
}
