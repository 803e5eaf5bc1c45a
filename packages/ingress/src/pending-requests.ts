import type { CatalogModel } from "@tutti/actors/runtime";
import { IdentityIndex, IndexedHeap } from "@tutti/collections";
import type { Form } from "@tutti/wire";
import type { OutcomeTicket } from "./outcome-ticket.ts";
import type { Span } from "@tutti/ports/telemetry";
import { type ActorKey, type Instant, type Micros, type RequestSeq, type ThreadId, assert } from "@tutti/units";

/** A request that was accepted and not yet answered. The ingress alone decides its outcome (T1). */
export interface PendingRequest {
  /** Its number here. It changes if the request is sent again while the old number may still be in use. */
  seq: RequestSeq;
  readonly slot: number;
  readonly model: CatalogModel;
  /** Whether its answer names the version. */
  readonly isVersioned: boolean;
  readonly thread: ThreadId;
  readonly appId: number;
  /** Subject of the answer. */
  readonly reply: string;
  /** Set for a warm-up request (WarmUp), which no figure counts; called when it is settled. */
  readonly onSettled: (() => void) | undefined;
  /** Set for a requester in this process, which gets the outcome instead of a reply subject. */
  readonly ticket: OutcomeTicket | undefined;
  readonly form: Form;
  readonly publisherId: string | undefined;
  readonly wanted: readonly string[] | undefined;
  readonly row: Uint8Array;
  readonly arrivedAt: Instant;
  /** The publisher's deadline. */
  readonly deadline: Instant;
  readonly slo: Micros;
  readonly priority: number;
  /** Its length in its model's own unit; 0: unknown. */
  readonly units: number;
  readonly span: Span | undefined;
  readonly traceparent: string;
  /** Position among the arrivals sent to its thread's batcher, so that a gap can be sent again. */
  arrivalSeq: number;
  /**
   * The term under which its arrival was sent. It is 0 if the present holder of the model doesn't know of the request
   * (ArrivalStreams, STREAM-2).
   */
  toldTerm: number;
  /** Whether it was sent again, after a pull refused for an unknown secret or a batch that ran without it. */
  isToldAgain: boolean;
  /** Whether it was sent with its batch, and its executor is not yet known to have it. */
  isCarried: boolean;
  /** When its arrival was last sent again because its batcher had missed it. */
  repairedAt: Instant;
  /** Batch, executor and token of the last pull, and of the one before: only those executors may answer it (T2). */
  batch: number;
  executor: ActorKey | 0;
  token: Uint8Array | undefined;
  /** How often it was pulled with that token. */
  pulls: number;
  earlierBatch: number;
  earlierExecutor: ActorKey | 0;
  earlierToken: Uint8Array | undefined;
}

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

/**
 * The requests of one ingress by sequence, and by the time of their timers. Bounded in number and in bytes (T7).
 *
 * Typed arrays index the numbers. A Map would be rebuilt every few dozen requests, and an old one that V8 has promoted
 * keeps alive all that it held at its end until V8 collects the whole heap.
 */
export class PendingRequests {
  #index = new IdentityIndex(ROOM);
  #size = 0;
  readonly #bySlot: (PendingRequest | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  readonly #timers: IndexedHeap;
  readonly #limits: PendingLimits;
  /** Totals of each application that has requests. */
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
  get nextTimerAt(): Instant {
    return this.#timers.topPriority as Instant;
  }
  /** The limit that one more request of so many bytes would break; undefined: it fits. */
  limitReached(appId: number, bytes: number): keyof PendingLimits | undefined {
    const { requestsMax, bytesMax, appRequestsMax, appBytesMax } = this.#limits;
    if (this.#count >= requestsMax) return "requestsMax";
    if (this.bytes + bytes > bytesMax) return "bytesMax";
    const app = this.#byApp.get(appId);
    if ((app?.requests ?? 0) >= appRequestsMax) return "appRequestsMax";
    return (app?.bytes ?? 0) + bytes > appBytesMax ? "appBytesMax" : undefined;
  }
  /** Reserves room for a body that is being read and was found to fit, until `release`. */
  reserve(appId: number, bytes: number): void {
    this.#count++;
    this.bytes += bytes;
    const app = this.#byApp.get(appId);
    if (app === undefined) this.#byApp.set(appId, { requests: 1, bytes });
    else {
      app.requests++;
      app.bytes += bytes;
    }
  }
  release(appId: number, bytes: number): void {
    this.#count--;
    this.bytes -= bytes;
    const app = this.#byApp.get(appId)!;
    app.bytes -= bytes;
    if (--app.requests === 0) this.#byApp.delete(appId);
  }
  /** The slot that the next `add` must name. */
  nextSlot(): number {
    return this.#freeSlots.at(-1) ?? this.#bySlot.length;
  }
  get(seq: number): PendingRequest | undefined {
    const slot = this.#index.get(SELF, seq);
    return slot < 0 ? undefined : this.#bySlot[slot];
  }
  /** A copy of the present requests, in the order of their sequences. */
  values(): PendingRequest[] {
    return this.#bySlot.filter((held) => held !== undefined).sort((a, b) => a.seq - b.seq);
  }

  /** Adds a request that fits. */
  add(held: PendingRequest, timerAt: Instant): void {
    assert(this.#count < this.#limits.requestsMax && held.slot === this.nextSlot(), "there is no room for a request");
    if (held.slot >= this.#index.slots) this.#grow();
    if (held.slot === this.#bySlot.length) this.#bySlot.push(held);
    else {
      this.#freeSlots.pop();
      this.#bySlot[held.slot] = held;
    }
    this.#index.put(SELF, held.seq, held.slot);
    this.#size++;
    this.#timers.set(held.slot, timerAt);
    this.reserve(held.appId, held.row.byteLength);
  }

  remove(held: PendingRequest): void {
    if (this.get(held.seq) !== held) return;
    this.#index.delete(held.slot);
    this.#size--;
    this.#bySlot[held.slot] = undefined;
    this.#freeSlots.push(held.slot);
    this.#timers.remove(held.slot);
    this.release(held.appId, held.row.byteLength);
  }

  /** Gives a request a new number. Messages that still name the old one find nothing. */
  renumber(held: PendingRequest, seq: RequestSeq): void {
    if (this.get(held.seq) !== held) return;
    this.#index.delete(held.slot);
    held.seq = seq;
    this.#index.put(SELF, seq, held.slot);
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
