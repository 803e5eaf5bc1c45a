import type { CatalogModel } from "../catalog.ts";
import { IdentityIndex, IndexedHeap } from "@tutti/collections";
import type { Form } from "@tutti/wire";
import type { OutcomeTicket } from "./outcome-ticket.ts";
import type { Span } from "@tutti/ports/telemetry";
import { type ActorKey, type Instant, type Micros, type RequestSeq, type ThreadId, assert } from "@tutti/units";

/** A request that was accepted and not yet answered. The ingress is the arbiter of its fate (T1). */
export interface PendingRequest {
  /** Its number here; a new one when it is told again under circumstances in which the old one may still be around. */
  seq: RequestSeq;
  readonly slot: number;
  readonly model: CatalogModel;
  /** Its answer says which version it is of. */
  readonly isVersioned: boolean;
  readonly thread: ThreadId;
  readonly appId: number;
  /** Where the answer goes. */
  readonly reply: string;
  /** Of a request of our own (WarmUp), which no figure counts: told when it is settled. */
  readonly onSettled: (() => void) | undefined;
  /** Of an asker in this process, who hears the outcome instead of a reply subject. */
  readonly ticket: OutcomeTicket | undefined;
  readonly form: Form;
  readonly publisherId: string | undefined;
  readonly wanted: readonly string[] | undefined;
  readonly row: Uint8Array;
  readonly arrivedAt: Instant;
  /** The publisher's. */
  readonly deadline: Instant;
  readonly slo: Micros;
  readonly priority: number;
  /** Its length in its model's own unit; 0: unknown. */
  readonly units: number;
  readonly span: Span | undefined;
  readonly traceparent: string;
  /** Position among the arrivals told to its thread's batcher, so that a gap can be sent again. */
  arrivalSeq: number;
  /**
   * The term under which its batcher was told; 0 when whoever holds the model now doesn't know of it (ArrivalStreams,
   * L2).
   */
  toldTerm: number;
  /** After a pull that was refused because its batcher didn't know our secret, or a batch that ran without it. */
  isToldAgain: boolean;
  /** It was sent with its batch: that an executor has it is not known yet. */
  isCarried: boolean;
  /** When its batcher was last told because it had missed it. */
  repairedAt: Instant;
  /** Who pulled it last, and before that: only they may answer it (T2). */
  batch: number;
  executor: ActorKey | 0;
  token: Uint8Array | undefined;
  /** How often it was pulled with that token. */
  pulls: number;
  earlierBatch: number;
  earlierExecutor: ActorKey | 0;
  earlierToken: Uint8Array | undefined;
}

/** What one ingress holds at most, of all applications and of one. */
export interface PendingLimits {
  readonly requestsMax: number;
  readonly bytesMax: number;
  readonly appRequestsMax: number;
  readonly appBytesMax: number;
}

/** Slots that are indexed at first; then twice as many, and so on. */
const ROOM = 1_024;
/** Sequences are of this ingress alone. */
const SELF = 0;

/**
 * The requests of one ingress by sequence, and by the moment at which their timer fires. Bounded in number and in bytes
 * (T7).
 *
 * Numbers lead to them through typed arrays. A Map of them would be made anew every few dozen requests, and an old one,
 * dead but grown old, keeps all that it held at its end alive until V8 collects the whole heap.
 */
export class PendingRequests {
  #index = new IdentityIndex(ROOM);
  #size = 0;
  readonly #bySlot: (PendingRequest | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  readonly #timers: IndexedHeap;
  readonly #limits: PendingLimits;
  /** Of applications that have any. */
  readonly #byApp = new Map<number, { requests: number; bytes: number }>();
  /** Bodies that are being read count as what they will become. */
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
  /** Keeps room for a body that is being read and was found to fit, until `release`. */
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
  /** As they are now, in the order of their sequences. */
  values(): PendingRequest[] {
    return this.#bySlot.filter((held) => held !== undefined).sort((a, b) => a.seq - b.seq);
  }

  /** Only what fits. */
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

  /** Whatever still comes under the old number is about nobody. */
  renumber(held: PendingRequest, seq: RequestSeq): void {
    if (this.get(held.seq) !== held) return;
    this.#index.delete(held.slot);
    held.seq = seq;
    this.#index.put(SELF, seq, held.slot);
    // Nobody has pulled that.
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
