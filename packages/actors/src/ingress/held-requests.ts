import type { CatalogModel } from "../catalog.ts";
import { IndexedHeap } from "@tutti/collections";
import type { Form } from "@tutti/wire";
import type { Span } from "@tutti/telemetry";
import type { ActorKey, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";

/** A request that was accepted and not yet answered. The ingress is the arbiter of its fate (T1). */
export interface Held {
  readonly seq: RequestSeq;
  readonly slot: number;
  readonly model: CatalogModel;
  readonly thread: ThreadId;
  readonly appId: number;
  /** Where the answer goes. */
  readonly reply: string;
  /** Of a request of our own (WarmUp), which no figure counts: told when it is settled. */
  readonly onSettled: (() => void) | undefined;
  readonly form: Form;
  readonly publisherId: string | undefined;
  readonly wanted: readonly string[] | undefined;
  readonly row: Uint8Array;
  readonly arrivedAt: Instant;
  /** The publisher's. */
  readonly deadline: Instant;
  readonly slo: Micros;
  readonly priority: number;
  readonly span: Span | undefined;
  readonly traceparent: string;
  /** Position among the arrivals told to its thread's batcher, so that a gap can be sent again. */
  arrivalSeq: number;
  /** Who pulled it last, and before that: only they may answer it (T2). */
  batch: number;
  executor: ActorKey | 0;
  token: Uint8Array | undefined;
  earlierBatch: number;
  earlierExecutor: ActorKey | 0;
  earlierToken: Uint8Array | undefined;
}

/** What one ingress holds at most, of all applications and of one. */
export interface HeldLimits {
  readonly requestsMax: number;
  readonly bytesMax: number;
  readonly appRequestsMax: number;
  readonly appBytesMax: number;
}

/** The requests of one ingress by sequence, and by the moment at which their timer fires. Bounded in number and in bytes (T7). */
export class HeldRequests {
  readonly #bySeq = new Map<number, Held>();
  readonly #bySlot: (Held | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  readonly #timers: IndexedHeap;
  readonly #limits: HeldLimits;
  /** Of applications that have any. */
  readonly #byApp = new Map<number, { requests: number; bytes: number }>();
  bytes = 0;

  constructor(options: HeldLimits) {
    this.#limits = options;
    this.#timers = new IndexedHeap(options.requestsMax);
  }

  get size(): number {
    return this.#bySeq.size;
  }
  get nextTimerAt(): Instant {
    return this.#timers.topPriority as Instant;
  }
  /** The limit that one more request of so many bytes would break; undefined: it fits. */
  limitReached(appId: number, bytes: number): keyof HeldLimits | undefined {
    const { requestsMax, bytesMax, appRequestsMax, appBytesMax } = this.#limits;
    if (this.#bySeq.size >= requestsMax) return "requestsMax";
    if (this.bytes + bytes > bytesMax) return "bytesMax";
    const app = this.#byApp.get(appId);
    if ((app?.requests ?? 0) >= appRequestsMax) return "appRequestsMax";
    return (app?.bytes ?? 0) + bytes > appBytesMax ? "appBytesMax" : undefined;
  }
  /** The slot that the next `add` must name. */
  nextSlot(): number {
    return this.#freeSlots.at(-1) ?? this.#bySlot.length;
  }
  get(seq: number): Held | undefined {
    return this.#bySeq.get(seq);
  }
  values(): IterableIterator<Held> {
    return this.#bySeq.values();
  }

  add(held: Held, timerAt: Instant): void {
    if (held.slot === this.#bySlot.length) this.#bySlot.push(held);
    else {
      this.#freeSlots.pop();
      this.#bySlot[held.slot] = held;
    }
    this.#bySeq.set(held.seq, held);
    this.#timers.set(held.slot, timerAt);
    this.bytes += held.row.byteLength;
    const app = this.#byApp.get(held.appId);
    if (app === undefined) this.#byApp.set(held.appId, { requests: 1, bytes: held.row.byteLength });
    else {
      app.requests++;
      app.bytes += held.row.byteLength;
    }
  }

  remove(held: Held): void {
    if (!this.#bySeq.delete(held.seq)) return;
    this.#bySlot[held.slot] = undefined;
    this.#freeSlots.push(held.slot);
    this.#timers.remove(held.slot);
    this.bytes -= held.row.byteLength;
    const app = this.#byApp.get(held.appId)!;
    app.bytes -= held.row.byteLength;
    if (--app.requests === 0) this.#byApp.delete(held.appId);
  }

  /** The request whose timer is due at `now`, or undefined. */
  due(now: Instant): Held | undefined {
    return this.#timers.topPriority <= now ? this.#bySlot[this.#timers.topKey] : undefined;
  }
}
