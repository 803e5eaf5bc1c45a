import { ArrivalsMissed, IngressIntroduced, RequestArrived, RequestWithdrawn } from "@tutti/protocol";
import { type ActorKey, type Micros, type ThreadId, before, bucketOf, modelNumberOf } from "@tutti/units";
import type { CatalogModel, ModelLease } from "../catalog.ts";
import { reserve } from "../reserve.ts";
import type { Station } from "../station.ts";
import type { Held, HeldRequests } from "./held-requests.ts";

/** The way to one ModelThread: who has it, under which term, and how many arrivals it was told. */
interface Lane {
  readonly thread: ThreadId;
  lease: ModelLease;
  arrivalSeq: number;
}

/**
 * Tells each ModelThread of its arrivals, numbered without gaps per (thread, term), so that a lost message is noticed and asked for. When a model's
 * lease moves, the new holder is sent what nobody has pulled yet.
 */
export class Lanes {
  readonly #station: Station;
  readonly #held: HeldRequests;
  readonly #secret: Uint8Array;
  readonly #self: ActorKey;
  readonly #respond: () => Micros;
  readonly #lanes = new Map<ThreadId, Lane>();
  readonly #introducedTo = new Set<ActorKey>();

  constructor(options: {
    readonly station: Station;
    readonly held: HeldRequests;
    readonly secret: Uint8Array;
    readonly self: ActorKey;
    /** d_resp: what an answer needs after its batch has run. */
    readonly respond: () => Micros;
  }) {
    this.#station = options.station;
    this.#held = options.held;
    this.#secret = options.secret;
    this.#self = options.self;
    this.#respond = options.respond;
    options.station.reader.on(ArrivalsMissed, (missed, sender) => this.#sendAgain(missed, sender));
  }

  arrive(held: Held, lease: ModelLease): void {
    let lane = this.#lanes.get(held.thread);
    if (lane === undefined) this.#lanes.set(held.thread, (lane = { thread: held.thread, lease, arrivalSeq: 0 }));
    else if (lease.term > lane.lease.term) {
      lane.lease = lease;
      lane.arrivalSeq = 0;
    }
    held.arrivalSeq = ++lane.arrivalSeq;
    this.#tell(lane, held);
  }

  withdraw(held: Held): void {
    const lane = this.#lanes.get(held.thread);
    if (lane !== undefined)
      this.#station.send(lane.lease.batcher, RequestWithdrawn, { thread: held.thread, seq: held.seq });
  }

  /** Whether `sender` has the right to refuse this thread's requests. */
  holds(thread: ThreadId, sender: ActorKey): boolean {
    return this.#lanes.get(thread)?.lease.batcher === sender;
  }

  /** The lease of a model moved: everything that no executor has pulled is sent to the new holder under its term. */
  moved(model: CatalogModel, isAlive: (executor: ActorKey) => boolean): void {
    if (model.lease === undefined) return;
    const lease = model.lease;
    for (const lane of this.#lanes.values()) {
      if (modelNumberOf(lane.thread) !== model.spec.number || lane.lease.term >= lease.term) continue;
      lane.lease = lease;
      lane.arrivalSeq = 0;
    }
    for (const held of this.#held.values()) {
      if (modelNumberOf(held.thread) !== model.spec.number) continue;
      if (held.executor === 0 || !isAlive(held.executor)) this.arrive(held, lease);
    }
  }

  /** Batchers need the secret to sign the tokens of batches that pull from here. */
  introduce(batcher: ActorKey): void {
    this.#introducedTo.add(batcher);
    this.#station.send(batcher, IngressIntroduced, {
      ingress: this.#self,
      secret: this.#secret,
      respond: this.#respond(),
    });
  }
  /** Now and then, to everybody: an introduction that was lost would leave every pull from here forbidden. */
  introduceAgain(): void {
    for (const batcher of this.#introducedTo) this.introduce(batcher);
  }
  forget(batcher: ActorKey): void {
    this.#introducedTo.delete(batcher);
  }

  /** For heartbeats: the last arrival of each lane, so that a lost last one is noticed too. */
  lastArrivals(): { thread: ThreadId; term: number; arrivalSeq: number }[] {
    return [...this.#lanes.values()].map(({ thread, lease, arrivalSeq }) => ({ thread, term: lease.term, arrivalSeq }));
  }

  #tell(lane: Lane, held: Held): void {
    const { batcher, term } = lane.lease;
    if (!this.#introducedTo.has(batcher)) this.introduce(batcher);
    const arrival = {
      thread: held.thread,
      app: held.appId,
      term,
      arrivalSeq: held.arrivalSeq,
      seq: held.seq,
      arrivedAt: held.arrivedAt,
      deadline: before(held.deadline, reserve(this.#respond(), held.slo)),
      slo: held.slo,
      size: bucketOf(held.thread),
      priority: held.priority,
    };
    this.#station.send(batcher, RequestArrived, arrival, "soon");
  }

  #sendAgain(missed: { thread: ThreadId; term: number; fromSeq: number; toSeq: number }, sender: ActorKey): void {
    const lane = this.#lanes.get(missed.thread);
    if (lane === undefined || lane.lease.batcher !== sender || lane.lease.term !== missed.term) return;
    for (const held of this.#held.values()) {
      if (held.thread !== missed.thread || held.arrivalSeq < missed.fromSeq || held.arrivalSeq >= missed.toSeq)
        continue;
      this.#tell(lane, held);
    }
  }
}
