import {
  BatchAsked,
  BatchDispatched,
  CandidateOffered,
  GrantAnswered,
  IngressIntroduced,
  JobOffered,
  type RefusalQueue,
  RequestRefused,
  SamplesWanted,
  WAITED_FOR,
  codeNumber,
} from "@tutti/protocol";
import type { Clock } from "@tutti/ports/clock";
import { signToken } from "@tutti/ports/pull";
import {
  type Candidate,
  type DispatchedBatch,
  type Grant,
  type ModelEffects,
  type Request,
  refusalState,
} from "@tutti/scheduling";
import {
  type ActorKey,
  type Instant,
  type Micros,
  type ThreadId,
  after,
  isJobThread,
  micros,
  millis,
} from "@tutti/units";
import type { BatchCarrier } from "../runtime/local-actors.ts";
import type { LocalActors } from "../runtime/ports.ts";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { AcceleratorCensus } from "./accelerator-census.ts";
import type { RankerRouter } from "./ranker-router.ts";
import { OfferCoalescer } from "./offer-coalescer.ts";
import type { SampleSelector } from "./sample-selector.ts";
import { type ThreadEntry, type ThreadTable, countBatch } from "./thread-table.ts";

/**
 * Bound of the secrets kept, including those of silent ingresses. The pulls of an ingress that was given up by mistake
 * must not be refused until it introduces itself again.
 */
const SECRETS_MAX = 1_024;

/** How long past its planned end a batch may run before its executor is asked about it. */
const OVERDUE = millis(50);

/** Turns the decisions of ModelThreads into messages. */
export class Dispatcher implements ModelEffects {
  readonly #runtime: ActorRuntime;
  readonly #router: RankerRouter;
  readonly #threads: ThreadTable;
  readonly #selector: SampleSelector;
  readonly #self: ActorKey;
  readonly #now: () => Instant;
  readonly #coalescer: OfferCoalescer;
  readonly #census: AcceleratorCensus;
  readonly #local: LocalActors | undefined;
  readonly #responds = new Map<ActorKey, Micros>();
  readonly #secrets = new Map<ActorKey, Uint8Array>();

  constructor(options: {
    readonly runtime: ActorRuntime;
    readonly router: RankerRouter;
    readonly threads: ThreadTable;
    readonly selector: SampleSelector;
    readonly self: ActorKey;
    readonly clock: Clock;
    readonly local: LocalActors | undefined;
  }) {
    this.#local = options.local;
    this.#runtime = options.runtime;
    this.#router = options.router;
    this.#threads = options.threads;
    this.#selector = options.selector;
    this.#self = options.self;
    this.#now = () => options.clock.now();
    this.#census = new AcceleratorCensus({ ...options, registry: options.runtime.registry });
    this.#coalescer = new OfferCoalescer(options.clock, (candidate) => {
      const entry = this.#threads.get(candidate.thread);
      const leader = this.#router.leaderOf(entry);
      // Without a leader there is no receiver; "ranker-changed" makes the thread offer to the next one.
      if (leader === undefined) return;
      sendOffer(this.#runtime, leader.key, candidate);
      const successor = this.#router.successorOf(entry);
      if (successor !== undefined) sendOffer(this.#runtime, successor, candidate);
    });
    options.runtime.onPacked(IngressIntroduced, ({ ingress, secret, respond }, sender) => {
      if (sender !== ingress) return;
      this.#secrets.delete(ingress); // The newest come last.
      this.#secrets.set(ingress, Uint8Array.from(secret));
      for (const oldest of this.#secrets.keys()) {
        if (this.#secrets.size <= SECRETS_MAX) break;
        this.#secrets.delete(oldest);
      }
      this.#responds.set(ingress, respond);
    });
  }

  /** The thread has a new leader, which has not seen any of its offers. */
  unseen(thread: ThreadId): void {
    this.#coalescer.voided(thread);
  }
  /** The thread is about to offer to another leader. */
  withdraw(thread: ThreadId): void {
    this.#coalescer.withdraw(thread);
  }
  close(): void {
    this.#coalescer.close();
  }
  /** Current offer of each thread. Heartbeats carry them, so that a lost offer is repaired. */
  currentOffers(): Candidate[] {
    return this.#coalescer.sent();
  }
  forgetThread(thread: ThreadId): void {
    this.#coalescer.forget(thread);
    this.#selector.forget(thread);
  }
  /** d_resp as measured by the slowest ingress. */
  get respond(): Micros {
    let slowest = micros(0);
    for (const respond of this.#responds.values()) if (respond > slowest) slowest = respond;
    return slowest;
  }
  forgetIngress(ingress: ActorKey): void {
    this.#responds.delete(ingress);
  }

  offer(candidate: Candidate): void {
    this.#coalescer.offer(candidate);
  }

  /** When a received grant should have been sent. */
  dueAt(grant: Grant): Instant {
    return this.#coalescer.dueAt(grant);
  }

  /** Whether batches may pull from the ingress. */
  knows(ingress: ActorKey): boolean {
    return this.#secrets.has(ingress);
  }

  /**
   * Gives back an accelerator that was granted to a thread which has left this batcher, or by another sub-cluster's
   * leader.
   */
  decline(grant: Grant, now: Instant): void {
    const leader = this.#router.leaders.withEpoch(grant.epoch);
    if (leader === undefined || now > grant.validUntil) return;
    const { thread, gpu, term, offerSeq, epoch, grantSeq, freeAt } = grant;
    this.#runtime.send(leader.key, GrantAnswered, {
      thread,
      gpu,
      term,
      offerSeq,
      epoch,
      grantSeq,
      used: false,
      freeAt,
      scarcity: 0,
    });
  }

  answerGrant(grant: Grant, used: boolean, freeAt: Instant, offerSeq: number, scarcity: number): void {
    this.#coalescer.voided(grant.thread);
    const leader = this.#router.leaders.withEpoch(grant.epoch);
    if (leader === undefined) return;
    this.#runtime.send(leader.key, GrantAnswered, {
      thread: grant.thread,
      gpu: grant.gpu,
      term: grant.term,
      offerSeq,
      epoch: grant.epoch,
      grantSeq: grant.grantSeq,
      used,
      freeAt,
      scarcity,
    });
  }

  dispatch(batch: DispatchedBatch): void {
    const { grant } = batch;
    const entry = this.#threads.get(batch.thread);
    if (entry !== undefined) countBatch(entry, batch.requests);
    const isForJobs = isJobThread(batch.thread);
    const groups = groupByIngress(batch.requests);
    const carrier = this.#carrierFor(groups);
    const ingresses = groups.map(({ ingress, requests }) => ({
      ingress,
      token: carrier?.newToken() ?? this.#sign(ingress, batch, requests),
      count: requests.length,
    }));
    const wanted = this.#selector.mark(batch, grant.sentAt);
    if (wanted !== undefined) this.#runtime.send(grant.executor, SamplesWanted, wanted);
    const message: BatchDispatched = {
      batchId: batch.batchId,
      thread: batch.thread,
      gpu: grant.gpu,
      term: batch.term,
      epoch: grant.epoch,
      grantSeq: grant.grantSeq,
      executor: grant.executor,
      ranker: this.#router.leaders.withEpoch(grant.epoch)?.key ?? this.#self,
      validUntil: grant.validUntil,
      grantedAt: grant.sentAt,
      sentAt: this.#now(),
      startAt: batch.startAt,
      // An ingress that is silent must not keep the accelerator from requests until its jobs' deadline.
      latest: isForJobs ? batch.startAt : batch.latest,
      // Instants travel as float64, and "never too early" is −Infinity.
      frontrun: batch.frontrun,
      expectedRun: batch.expectedRun,
      ingresses,
      requests: groups.flatMap((group) => group.requests),
    };
    if (carrier?.carry(message, this.#self) !== true) this.#runtime.send(grant.executor, BatchDispatched, message);
    batch.askAt = after(after(batch.startAt, batch.expectedRun), OVERDUE);
  }

  /** The carrier that takes a batch together with its rows, if all of them lie in this process. */
  #carrierFor(groups: ReturnType<typeof groupByIngress>): BatchCarrier | undefined {
    const rows = this.#local?.rows;
    const [group] = groups;
    if (rows === undefined || group === undefined || groups.length > 1 || group.ingress !== rows.ingress) return;
    return rows.takes(group.requests) ? rows : undefined;
  }

  refuse(request: Request, cause: "infeasible" | "overloaded", feasible: Micros): void {
    const code = codeNumber(cause === "infeasible" ? "TUTTI_DEADLINE_INFEASIBLE" : "TUTTI_OVERLOADED");
    const thread = (request as QueuedRequest).thread;
    const entry = this.#threads.get(thread);
    if (entry !== undefined) entry[cause]++;
    // Negative if a request claims to have come later than it did.
    const refused: RequestRefused = {
      ...{ thread, code, seq: request.seq, feasible: feasible > 0 ? feasible : micros(0) },
      queue: entry === undefined ? [] : [this.#queueOf(entry, request, feasible)],
    };
    this.#runtime.send(request.ingress, RequestRefused, refused, "soon");
  }

  #queueOf({ core, subCluster }: ThreadEntry, request: Request, feasible: Micros): RefusalQueue {
    const { waitedFor, queued, inFlight, alone } = refusalState(core, request, feasible);
    const { accelerators, idle } = this.#census.of(subCluster);
    return { waitedFor: WAITED_FOR.indexOf(waitedFor), queued, inFlight, accelerators, idle, alone };
  }

  /** Refuses a job that is longer than any that may be started here: no SLO would be feasible. */
  refuseLong({ ingress, seq }: Request, thread: ThreadId): void {
    const code = codeNumber("TUTTI_DEADLINE_INFEASIBLE");
    this.#runtime.send(ingress, RequestRefused, { thread, code, seq, feasible: micros(0), queue: [] }, "soon");
  }

  /** Asks the executor for the outcome of an overdue batch. */
  ask(batch: DispatchedBatch, now: Instant): void {
    batch.askings++;
    batch.askAt = after(now, OVERDUE);
    const { batchId, thread, grant } = batch;
    const { gpu, executor } = grant;
    this.#runtime.send(executor, BatchAsked, { batchId, thread, gpu, executor });
  }

  #sign(ingress: ActorKey, batch: DispatchedBatch, requests: readonly Request[]): Uint8Array {
    const secret = this.#secrets.get(ingress);
    // An ingress that is unknown here refuses the pull, and its requests time out there.
    if (secret === undefined) return NO_TOKEN;
    return signToken(secret, {
      batcher: this.#self,
      batchId: batch.batchId,
      executor: batch.grant.executor,
      seqs: requests.map((request) => request.seq),
    });
  }
}

/** Queued request: the core's request and the thread that it is for. */
export interface QueuedRequest extends Request {
  readonly thread: ThreadId;
  /** Size hint; 0: none. */
  readonly units: number;
}

const NO_TOKEN = new Uint8Array(16);

/** Offers of jobs are messages of their own, which rankers that don't know them ignore. */
export function sendOffer(runtime: ActorRuntime, ranker: ActorKey, candidate: Candidate): void {
  const { takes } = candidate;
  if (takes === undefined) runtime.send(ranker, CandidateOffered, candidate);
  else runtime.send(ranker, JobOffered, { ...candidate, takes });
}

function groupByIngress(requests: readonly Request[]): { ingress: ActorKey; requests: Request[] }[] {
  const groups: { ingress: ActorKey; requests: Request[] }[] = [];
  for (const request of requests) {
    let group = groups.find((known) => known.ingress === request.ingress);
    if (group === undefined) groups.push((group = { ingress: request.ingress, requests: [] }));
    group.requests.push(request);
  }
  return groups;
}
