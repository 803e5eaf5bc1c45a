import { ArrivalsMissed, IngressIntroduced, RequestArrived, RequestCosts, RequestWithdrawn } from "@tutti/protocol";
import {
  type ActorKey,
  type Instant,
  type Micros,
  type ThreadId,
  actorToken,
  after,
  before,
  bucketOf,
  later,
  millis,
  modelNumberOf,
} from "@tutti/units";
import { type CatalogModel, type ModelLease, type Urgency, type ActorRuntime, reserve } from "@tutti/actors/runtime";
import type { PendingRequest } from "./pending-request.ts";
import type { PendingRequests } from "./pending-requests.ts";
import { traceFailover } from "../figures/request-spans.ts";

/** How long a second question for the same arrivals may be under way. */
const CROSSES_WITHIN = millis(20);

/** The stream of arrivals to one ModelThread: its lease, and the number of arrivals sent. */
interface Lane {
  readonly thread: ThreadId;
  lease: ModelLease;
  arrivalSeq: number;
  /** Time of the last arrival from outside. */
  usedAt: Instant;
}

export interface ArrivalStreamsOptions {
  readonly runtime: ActorRuntime;
  readonly pending: PendingRequests;
  readonly secret: Uint8Array;
  readonly self: ActorKey;
  /** d_resp: the time that an answer needs after its batch has run. */
  readonly respond: () => Micros;
  readonly now: () => Instant;
}

/**
 * Sends arrivals to each ModelThread, numbered without gaps per (thread, term). A lost message is thus noticed and
 * asked for. When a model's lease moves, the new holder gets the requests that no executor has pulled yet.
 *
 *   STREAM-1. A request that an executor has pulled is not sent again while that executor lives: it would run twice. A
 *             request that was sent to an executor with its batch is sent again: nobody knows whether the executor has
 *             accepted the batch, and a batcher that has lost the model puts nothing back.
 *   STREAM-2. A request is an orphan if the present holder of its model doesn't know of it: when its executor dies,
 *             only this ingress sends it again.
 */
export class ArrivalStreams {
  readonly #runtime: ActorRuntime;
  readonly #pending: PendingRequests;
  readonly #secret: Uint8Array;
  readonly #self: ActorKey;
  readonly #respond: () => Micros;
  readonly #now: () => Instant;
  readonly #lanes = new Map<ThreadId, Lane>();
  readonly #introducedTo = new Set<ActorKey>();
  /** Executors that have orphans, each with the latest deadline of those. */
  readonly #orphansOf = new Map<ActorKey, Instant>();

  constructor(options: ArrivalStreamsOptions) {
    this.#runtime = options.runtime;
    this.#pending = options.pending;
    this.#secret = options.secret;
    this.#self = options.self;
    this.#respond = options.respond;
    this.#now = options.now;
    options.runtime.reader.on(ArrivalsMissed, (missed, sender) => this.#sendAgain(missed, sender));
  }

  get size(): number {
    return this.#lanes.size;
  }

  arrive(held: PendingRequest, lease: ModelLease): void {
    let lane = this.#lanes.get(held.thread);
    if (lane === undefined) {
      lane = { thread: held.thread, lease, arrivalSeq: 0, usedAt: -Infinity as Instant };
      this.#lanes.set(held.thread, lane);
    } else if (lease.term > lane.lease.term) {
      lane.lease = lease;
      lane.arrivalSeq = 0;
    }
    if (held.onSettled === undefined && !held.isJob) lane.usedAt = held.arrivedAt;
    held.arrivalSeq = ++lane.arrivalSeq;
    held.toldTerm = lane.lease.term;
    this.#tell(lane, held);
  }

  withdraw(held: PendingRequest): void {
    const lane = this.#lanes.get(held.thread);
    if (lane !== undefined)
      this.#runtime.send(lane.lease.batcher, RequestWithdrawn, { thread: held.thread, seq: held.seq });
  }

  /** Whether `sender` holds the thread, and may refuse its requests. */
  holds(thread: ThreadId, sender: ActorKey): boolean {
    return this.#lanes.get(thread)?.lease.batcher === sender;
  }

  /** Whether requests from outside came for the model since `since`. */
  isUsed(modelNumber: number, since: Instant): boolean {
    for (const { thread, usedAt } of this.#lanes.values())
      if (usedAt > since && modelNumberOf(thread) === modelNumber) return true;
    return false;
  }

  /**
   * The lease of a model moved. Every request that no living executor has pulled is sent to the new holder under its
   * term (STREAM-1).
   */
  moved(model: CatalogModel): void {
    if (model.lease === undefined) return;
    const lease = model.lease;
    for (const lane of this.#lanes.values()) {
      if (modelNumberOf(lane.thread) !== model.spec.number || lane.lease.term >= lease.term) continue;
      lane.lease = lease;
      lane.arrivalSeq = 0;
    }
    const isAlive = (executor: ActorKey): boolean => this.#isAlive(executor);
    for (const held of this.#pending.values()) {
      if (modelNumberOf(held.thread) !== model.spec.number) continue;
      traceFailover(held, this.#now(), "batcher replaced", "another batcher holds the lease of its model");
      if (held.executor === 0 || held.isCarried || !isAlive(held.executor)) this.arrive(held, lease);
      else this.orphan(held);
    }
  }

  /** Forgets a removed model; its pending requests have no batcher any more. */
  forgetModel(modelNumber: number): void {
    for (const { thread } of this.#lanes.values())
      if (modelNumberOf(thread) === modelNumber) this.#lanes.delete(thread);
  }

  /**
   * An executor pulled the request for a batch of this batcher. If that batcher no longer holds the model, it had sent
   * the batch before the move: then its successor must not run the request too.
   */
  pulled(held: PendingRequest, batcher: ActorKey): void {
    if (held.span !== undefined && held.earlierExecutor !== 0) {
      const reason = `executor ${actorToken(held.earlierExecutor)} had pulled it, and died or left its batch undone`;
      traceFailover(held, this.#now(), "run again", reason);
    }
    const lane = this.#lanes.get(held.thread);
    if (lane === undefined || lane.lease.batcher === batcher || held.toldTerm !== lane.lease.term) return;
    this.withdraw(held);
    this.orphan(held);
  }

  /**
   * A pull was refused because its batcher did not know our secret, and the batch runs without the request. The batcher
   * gets the secret again, and the request is sent again: once, a job each time.
   */
  refused(held: PendingRequest, batcher: ActorKey): void {
    const lane = this.#lanes.get(held.thread);
    if (lane?.lease.batcher !== batcher || held.executor !== 0 || (held.isToldAgain && !held.isJob)) return;
    traceFailover(held, this.#now(), "told again", "its batcher did not know this ingress, and its pull was refused");
    this.introduce(batcher);
    this.#tellAnew(held, lane);
  }

  /** The row came too late for its batch, which ran without it: the request is sent again, once; a job each time. */
  notRun(held: PendingRequest): void {
    const lane = this.#lanes.get(held.thread);
    if (lane === undefined || (held.isToldAgain && !held.isJob)) return;
    traceFailover(held, this.#now(), "told again", "its row came too late for its batch, which ran without it");
    this.#tellAnew(held, lane);
  }

  /**
   * Sends a request again under a new number. If its former batch were refused, the batcher would put it back a second
   * time, whether or not it hears of the withdrawal; and a late withdrawal must not hit the new arrival.
   */
  #tellAnew(held: PendingRequest, lane: Lane): void {
    held.isToldAgain = true;
    this.withdraw(held);
    this.#pending.renumber(held);
    this.arrive(held, lane.lease);
  }

  /** STREAM-2: marks the request as an orphan. */
  orphan(held: PendingRequest): void {
    held.toldTerm = 0;
    const executor = held.executor as ActorKey;
    this.#orphansOf.set(executor, later(held.lastDeadline, this.#orphansOf.get(executor) ?? held.lastDeadline));
  }

  /** Whether this ingress must detect the death of the executor (STREAM-2). */
  watches(executor: ActorKey): boolean {
    return this.#orphansOf.has(executor);
  }
  executorLost(executor: ActorKey): void {
    if (!this.#orphansOf.delete(executor)) return;
    for (const held of this.#pending.values()) {
      const lane = this.#lanes.get(held.thread);
      if (held.executor !== executor || lane === undefined || held.toldTerm === lane.lease.term) continue;
      traceFailover(held, this.#now(), "told again", "its executor died, and its batcher was replaced");
      this.arrive(held, lane.lease);
    }
  }

  /** Sends a batcher the secret that it needs to sign the tokens of batches that pull from here. */
  introduce(batcher: ActorKey, urgency: Urgency = "now"): void {
    this.#introducedTo.add(batcher);
    const introduced = { ingress: this.#self, secret: this.#secret, respond: this.#respond() };
    this.#runtime.send(batcher, IngressIntroduced, introduced, urgency);
  }
  /**
   * Repeats the introduction to every living batcher at intervals. A lost one would leave every pull from here
   * forbidden.
   */
  introduceAgain(now: Instant): void {
    for (const batcher of this.#introducedTo) {
      if (this.#runtime.registry.get(batcher) === undefined) this.#introducedTo.delete(batcher);
      else this.introduce(batcher, "upkeep");
    }
    for (const [executor, until] of this.#orphansOf) if (now > until) this.#orphansOf.delete(executor);
  }
  forget(batcher: ActorKey): void {
    this.#introducedTo.delete(batcher);
  }

  /** The last arrival of each stream, for heartbeats, so that the loss of the last one is noticed too. */
  lastArrivals(): { thread: ThreadId; term: number; arrivalSeq: number }[] {
    return [...this.#lanes.values()].map(({ thread, lease, arrivalSeq }) => ({ thread, term: lease.term, arrivalSeq }));
  }

  #isAlive(executor: ActorKey): boolean {
    return this.#runtime.registry.get(executor) !== undefined;
  }

  /** Sends the message of an arrival, a shape of its own: it has a batcher's deadline, which is that of the run. */
  #tell(lane: Lane, held: PendingRequest): void {
    const { batcher, term } = lane.lease;
    if (!this.#introducedTo.has(batcher)) this.introduce(batcher);
    const reserved = reserve(this.#respond(), held.slo);
    if (held.costs !== undefined) {
      const steps = held.costs.map((step) => ({
        deadline: before(after(after(held.arrivedAt, step.after), held.coldStart), reserved),
        cost: step.cost,
      }));
      this.#runtime.send(batcher, RequestCosts, { thread: held.thread, seq: held.seq, steps }, "soon");
    }
    const arrival = {
      thread: held.thread,
      app: held.appId,
      term,
      arrivalSeq: held.arrivalSeq,
      seq: held.seq,
      arrivedAt: held.arrivedAt,
      deadline: before(held.deadline, reserved),
      slo: held.slo,
      size: bucketOf(held.thread),
      priority: held.priority,
      units: held.units,
    };
    this.#runtime.send(batcher, RequestArrived, arrival, "soon");
  }

  #sendAgain(missed: { thread: ThreadId; term: number; fromSeq: number; toSeq: number }, sender: ActorKey): void {
    const lane = this.#lanes.get(missed.thread);
    if (lane === undefined || lane.lease.batcher !== sender || lane.lease.term !== missed.term) return;
    for (const held of this.#pending.values()) {
      if (held.thread !== missed.thread || held.arrivalSeq < missed.fromSeq || held.arrivalSeq >= missed.toSeq)
        continue;
      if (held.executor !== 0 && this.#isAlive(held.executor)) {
        // The batcher had the request once, and has forgotten our arrivals because it took us for dead. Or it asked
        // twice, and has had our answer since.
        if (held.repairedAt < before(this.#now(), CROSSES_WITHIN)) this.orphan(held);
      } else {
        held.repairedAt = this.#now();
        traceFailover(held, this.#now(), "told again", "its batcher missed it");
        this.#tell(lane, held);
      }
    }
  }
}
