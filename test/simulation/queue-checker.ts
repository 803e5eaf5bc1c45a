/**
 * A batcher's treatment of each request, checked on the messages that it gets and sends (M1 of packages/scheduling, T1,
 * T3). A queued request leaves once: in a batch, refused or withdrawn. A request that comes back from a refused batch
 * leaves again. None stays until its ingress gives up.
 */
import {
  type BatchDispatched,
  type BatchRefused,
  type RequestArrived,
  type RequestCosts,
  type RequestRefused,
  type RequestWithdrawn,
} from "@tutti/protocol";
import { type ActorKey, type ThreadId, isJobThread, modelNumberOf } from "@tutti/units";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import type { Plan } from "./plan.ts";
import { hasLongFaults } from "./production-timeouts.ts";
import type { Report } from "./violation.ts";

/** A request that came at least so long before its deadline was plannable. */
const PLANNABLE_US = 8_000;

/** Longest time for which refusals are gathered. */
const RELAXED_US = 1_000;
/** A batch that is out for so long may have been given up, as one that its executor never answers for. */
const UNANSWERED_US = 100_000;

interface Entry {
  readonly term: number;
  readonly thread: ThreadId;
  readonly since: number;
  readonly deadline: number;
  state: "queued" | "out" | "left";
  batch: BatchDispatched | undefined;
  outAt: number;
  withdrawnAt: number;
  /**
   * Its ingress was silent for so long that the batcher may have taken it for dead. The batcher may have dropped its
   * requests.
   */
  isLoose: boolean;
}

/** One batcher's requests, by `ingress/seq`. */
class Ledger {
  readonly entries = new Map<string, Entry>();
  /** Last deadlines of requests whose answers may be late at a cost. */
  readonly lastDeadlines = new Map<string, number>();
  readonly batches = new Map<number, { readonly batch: BatchDispatched; readonly requests: readonly string[] }>();
  /** When each executor was last heard. */
  readonly heard = new Map<ActorKey, number>();
  /** Until when each executor may have been taken for dead: by a ranker's report, or because it was silent. */
  readonly lost = new Map<ActorKey, number>();
  /** Threads that it has served, by term: evidence that it knows of its lease. */
  readonly served = new Map<ThreadId, number>();
}

export class QueueChecker {
  readonly #report: Report;
  readonly #now: () => number;
  readonly #termOf: (model: number) => number;
  /** After this silence a batcher may take a peer for dead. */
  readonly #silentUs: number;
  readonly #hasLongFaults: boolean;
  /**
   * Whether a seed lasts so long that a model may be found to take unlike times. Its batches start by when they likely
   * end in time, and name a run that is almost certainly over (LENGTH-4 of packages/scheduling).
   */
  readonly #mayBeDynamic: boolean;
  readonly #ledgers = new Map<Incarnation, Ledger>();
  readonly #batchers = new Map<ActorKey, Incarnation>();
  readonly #ended = new Set<ActorKey>();

  constructor(report: Report, now: () => number, termOf: (model: number) => number, plan: Plan) {
    this.#report = report;
    this.#now = now;
    this.#termOf = termOf;
    this.#silentUs = plan.timeouts.actor.peerTimeout * 0.9;
    this.#hasLongFaults = hasLongFaults(plan);
    this.#mayBeDynamic = plan.planned !== undefined;
  }

  started(actor: Incarnation): void {
    this.#batchers.set(actor.key, actor);
  }
  ended(actor: Incarnation): void {
    this.#ended.add(actor.key);
  }

  /** A message before the arrival of the same request. */
  costs(actor: Incarnation, { seq, steps }: RequestCosts, ingress: ActorKey): void {
    this.#of(actor).lastDeadlines.set(`${ingress}/${seq}`, steps.at(-1)!.deadline);
  }

  arrived(actor: Incarnation, arrival: RequestArrived, ingress: ActorKey): void {
    const ledger = this.#of(actor);
    this.#loosen(ledger, ingress);
    const id = `${ingress}/${arrival.seq}`;
    const known = ledger.entries.get(id);
    // A withdrawn request may be reported again: its batch ran without it, or an earlier holder's executor that had it
    // died.
    const isBack = known?.state === "left" && known.withdrawnAt > -Infinity;
    // Its executor died. A late question for missed arrivals made the ingress take the request for an orphan, and it
    // reports it again while the refusal is on its way.
    const isOrphan = known?.state === "left" && known.batch !== undefined && this.#ended.has(known.batch.executor);
    if (known !== undefined && known.term >= arrival.term && !known.isLoose && !isBack && !isOrphan) return;
    // The ingress was silent for so long that the batcher may have taken it for dead. In that case the arrival is new
    // to the batcher; otherwise it repeats a request that is out, and is not queued.
    const isUnsure = known?.isLoose === true && known.term >= arrival.term;
    if (known?.state === "out" && isUnsure) return;
    const { term, thread } = arrival;
    const deadline = ledger.lastDeadlines.get(id) ?? arrival.deadline;
    const entry: Entry = {
      term,
      thread,
      since: this.#now(),
      deadline,
      state: "queued",
      batch: undefined,
      outAt: 0,
      withdrawnAt: -Infinity,
      isLoose: isUnsure,
    };
    ledger.entries.set(id, entry);
  }

  /** The batcher has sent a message about the thread under that term. */
  served(actor: Incarnation, thread: ThreadId, term: number): void {
    this.#of(actor).served.set(thread, term);
  }

  dispatched(actor: Incarnation, batch: BatchDispatched): void {
    const ledger = this.#of(actor);
    const requests: string[] = [];
    let next = 0;
    for (const { ingress, count } of batch.ingresses)
      for (let i = 0; i < count; i++) requests.push(`${ingress}/${batch.requests[next++]!.seq}`);
    if (new Set(requests).size < requests.length) this.#report("M1", `a request is twice in batch ${batch.batchId}`);
    ledger.batches.set(batch.batchId, { batch, requests });
    for (const id of requests) {
      const entry = ledger.entries.get(id);
      if (entry === undefined || entry.thread !== batch.thread) {
        this.#report("M1", `batch ${batch.batchId} of ${actor.name} has request ${id}, which never came to its thread`);
        continue;
      }
      // A batch that was decided before the withdrawal came leaves at the end of the same turn.
      const isCrossing = entry.withdrawnAt === this.#now();
      if (entry.state === "left" && !isCrossing && !entry.isLoose)
        this.#report("M1", `request ${id} is dispatched after it was refused or withdrawn`);
      if (entry.state === "out" && !entry.isLoose && !this.#mayComeBack(ledger, entry))
        this.#report("M1", `request ${id} is in batches ${entry.batch?.batchId} and ${batch.batchId} of ${actor.name}`);
      const run = this.#mayBeDynamic ? 0 : batch.expectedRun;
      if (batch.startAt + run > entry.deadline || batch.latest > entry.deadline)
        this.#report("M4", `batch ${batch.batchId} is planned to end after the deadline of request ${id}`);
      entry.state = "out";
      entry.batch = batch;
      entry.outAt = this.#now();
    }
  }

  /** Whether a batch may be put back without a refusal: its executor is taken for dead, or never answers. */
  #mayComeBack(ledger: Ledger, { batch, outAt }: Entry): boolean {
    if (batch === undefined) return false;
    // Its goodbye may overtake its last reports, which went over another subject.
    if (this.#ended.has(batch.executor)) return true;
    return (
      this.#isSilent(ledger, batch.executor) ||
      outAt <= (ledger.lost.get(batch.executor) ?? -Infinity) ||
      this.#now() - outAt > UNANSWERED_US
    );
  }

  batchRefused(actor: Incarnation, { batchId }: BatchRefused, executor: ActorKey): void {
    const ledger = this.#of(actor);
    const known = ledger.batches.get(batchId);
    if (known === undefined || known.batch.executor !== executor) return;
    ledger.batches.delete(batchId);
    for (const id of known.requests) {
      const entry = ledger.entries.get(id);
      if (entry?.state === "out" && entry.batch === known.batch)
        ledger.entries.set(id, { ...entry, state: "queued", since: this.#now() });
    }
  }
  batchFinished(actor: Incarnation, batchId: number): void {
    this.#of(actor).batches.delete(batchId);
  }
  executorLost(actor: Incarnation, executor: ActorKey): void {
    this.#of(actor).lost.set(executor, this.#now());
  }
  heard(actor: Incarnation, sender: ActorKey): void {
    const ledger = this.#of(actor);
    this.#loosen(ledger, sender);
    ledger.heard.set(sender, this.#now());
  }
  #loosen(ledger: Ledger, peer: ActorKey): void {
    if (!this.#isSilent(ledger, peer)) return;
    ledger.lost.set(peer, this.#now());
    for (const [id, entry] of ledger.entries) if (id.startsWith(`${peer}/`)) entry.isLoose = true;
  }
  #isSilent(ledger: Ledger, sender: ActorKey): boolean {
    const heardAt = ledger.heard.get(sender);
    return heardAt !== undefined && this.#now() - heardAt >= this.#silentUs;
  }

  refused(actor: Incarnation, { seq }: RequestRefused, ingress: ActorKey): void {
    const ledger = this.#of(actor);
    const entry = ledger.entries.get(`${ingress}/${seq}`);
    if (entry === undefined) return this.#report("M1", `${actor.name} refuses a request that never came`);
    // A batcher that starts a stalled model anew may hear of its own new term late. The arrival under that term waits,
    // while the same request under the term before is refused.
    if (this.#hasLongFaults && ledger.served.get(entry.thread) !== entry.term) entry.isLoose = true;
    // A refusal decided just before the withdrawal came may leave together with others a moment later.
    const isCrossing = this.#now() - entry.withdrawnAt <= RELAXED_US;
    if (entry.state === "left" && !isCrossing && !entry.isLoose)
      this.#report("M1", `${actor.name} refuses request ${ingress}/${seq} a second time`);
    entry.state = "left";
  }

  withdrawn(actor: Incarnation, { seq }: RequestWithdrawn, ingress: ActorKey): void {
    const ledger = this.#of(actor);
    const entry = ledger.entries.get(`${ingress}/${seq}`);
    if (entry?.state === "out") entry.isLoose = true; // It does not come back with its batch, and may come again.
    if (entry?.state !== "queued") return;
    // An arrival that waits for the batcher to hear of its lease can't be withdrawn: it is refused, to nobody, when the
    // thread starts.
    if (ledger.served.get(entry.thread) !== entry.term) entry.isLoose = true;
    entry.state = "left";
    entry.withdrawnAt = this.#now();
  }

  /** T3: an ingress gives up a request that no executor has pulled. Its batcher must have released it before. */
  givenUp(ingress: Incarnation, { seq }: RequestWithdrawn, batcher: ActorKey): void {
    const actor = this.#batchers.get(batcher);
    if (actor === undefined || !actor.alive || actor.paused) return;
    // The last batcher has no successor for its models: with its goodbye it releases all waiting requests, for the next
    // batcher that takes the models.
    if (this.#ended.has(batcher)) return;
    const ledger = this.#of(actor);
    const entry = ledger.entries.get(`${ingress.key}/${seq}`);
    if (entry?.state !== "queued" || entry.isLoose || this.#isSilent(ledger, ingress.key)) return;
    // A request given up before its deadline was cancelled, or an earlier holder of the model has sent it out.
    if (this.#now() < entry.deadline) return;
    // A job waits for time that no request needs, and there may be none until its deadline.
    if (isJobThread(entry.thread)) return;
    const planned = entry.deadline - PLANNABLE_US;
    const isHeld =
      ledger.served.get(entry.thread) === entry.term && this.#termOf(modelNumberOf(entry.thread)) === entry.term;
    if (isHeld && entry.since < planned && actor.wokenAt < planned)
      this.#report("T3", `${actor.name} has kept request ${ingress.key}/${seq} until its ingress gave it up`);
  }

  #of(actor: Incarnation): Ledger {
    let ledger = this.#ledgers.get(actor);
    if (ledger === undefined) this.#ledgers.set(actor, (ledger = new Ledger()));
    return ledger;
  }
}
