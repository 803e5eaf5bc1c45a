/** State of a ModelThread, and its configuration. model-thread.ts steps it. */
import { DeadlineQueue } from "@tutti/collections";
import { ArrivalRate, type LatencyTable } from "@tutti/profile";
import { ALWAYS, NEVER, assert } from "@tutti/units";
import type { Instant, Micros, ThreadId } from "@tutti/units";
import { NONE_UNFIT, type UnfitTypes } from "../rank-thread/accelerator-classes.ts";
import { AcceptedGrants } from "./accepted-grants.ts";
import { type Adaptation, NO_ADAPTATION, adaptationTo } from "../adaptation/adaptation.ts";
import type { ShareRules } from "../admission/deal-shares.ts";
import { FairShares } from "../admission/fair-shares.ts";
import { BatchTargets } from "../batches/batch-targets.ts";
import { CountedRefusals } from "./counted-refusals.ts";
import type { DynamicProfile } from "../dynamic/dynamic-profile.ts";
import { DynamicPart } from "../dynamic/length-choice.ts";
import { InFlightBatches } from "./in-flight-batches.ts";
import { keepLater } from "../batches/later-choice.ts";
import { Lead } from "../adaptation/lead.ts";
import { Reserve } from "../adaptation/reserve.ts";
import type { Candidate, Request } from "../messages.ts";
import type { Policy, Preference } from "../policy.ts";
import { Scarcity } from "../adaptation/scarcity.ts";
import { SoleAccelerator } from "../adaptation/sole-accelerator.ts";
import { FastestPart, type FastestType } from "../batches/typed-choice.ts";

export interface ModelThreadConfig {
  thread: ThreadId;
  /** Term of the model's lease. */
  term: number;
  /** Epoch of the ranker's lease. */
  epoch: number;
  profile: LatencyTable;
  /** Profile for running times that depend on the input: batches are then chosen by it, not by `profile`. */
  dynamic?: DynamicProfile | undefined;
  /** Executor types that can't run it within its SLO. Default: none. */
  unfit?: UnfitTypes | undefined;
  /** The fastest type that can, where types are unlike; `profile` is the slowest one's. Default: all are alike. */
  fastest?: FastestType | undefined;
  slo: Micros;
  policy: Policy;
  /** Preference of the adaptive policy. Default: "accelerators". */
  prefer?: Preference;
  /** Share of the policy's wait: 0: eager; 1: the full wait. */
  patience: number;
  /**
   * A2. "target": heads are dropped early so that batches stay efficient; "head": only those that can't run even alone.
   */
  gather: "target" | "head";
  /** Target batch with "target", instead of b* (A7). */
  targetBatch?: number;
  /** Lateness of timers: frontrun comes so much earlier. */
  guard: Micros;
  ctrl: Micros;
  perItem: Micros;
  respond: Micros;
  queueMax: number;
  batchesInFlightMax: number;
  /** Number of the first batch. */
  batchIdBase?: number;
  /**
   * Time since when it would have received requests: from then on, silence means that none came. Default: unknown until
   * the first ones.
   */
  since?: Instant | undefined;
  /** Weights of applications under overload: M8. */
  shares?: ShareRules;
  /** Whether it has jobs (A13), not requests: its batches get only time that no request needs. */
  isForJobs?: boolean;
}

export class ModelThread {
  readonly thread: ThreadId;
  readonly term: number;
  readonly slo: Micros;
  readonly policy: Policy;
  readonly prefer: Preference;
  readonly patience: number;
  readonly queue: DeadlineQueue<Request>;
  /** Requests that aim at a later step of their costs; undefined until there is one. */
  later: DeadlineQueue<Request> | undefined = undefined;
  /** Number of members of the chosen batch that are from `later`. */
  laterSize = 0;
  readonly rate = new ArrivalRate();
  targets: BatchTargets;
  readonly inFlightBatches: InFlightBatches;
  readonly shares: FairShares;
  readonly refusals: CountedRefusals;
  readonly scarcity = new Scarcity();
  readonly sole = new SoleAccelerator();
  readonly reserve = new Reserve();
  readonly lead = new Lead();
  readonly accepted = new AcceptedGrants();
  readonly offered: Candidate;

  profile: LatencyTable;
  dynamic: DynamicPart | undefined;
  unfit: UnfitTypes;
  fastest: FastestPart | undefined;
  /** l(b) of the batch that is being formed: as planned, or while a grant is taken those on its accelerator. */
  latencies: Float64Array;
  batchSizeMax: number;
  epoch: number;
  guard: Micros;
  ctrl: Micros;
  perItem: Micros;
  respond: Micros;
  now: Instant = ALWAYS;
  wakeAt: Instant = NEVER;
  nextBatchId: number;
  /** Current settings of the adaptive policy, from the arrivals so far. */
  adaptation: Adaptation;
  /** Time by which a batch may start early, for each of its requests, µs. */
  earlyPerRequest = Infinity;
  /** Adaptive policy, static models: true if a batch may wait for others even when an accelerator is idle. */
  mayWait = true;

  /** The highest scarcity of accelerators that any model had reported when the last grant came: 0 … 255. */
  scarcityOfOthers = 0;

  /** Adaptive policy: overload has lasted for seconds, and admission does not limit it. */
  isOverloaded = false;

  /** Size of the chosen batch; 0: none. */
  batchSize = 0;
  /** Number of queued requests before it, which can't wait for a batch of that size and stay for another. */
  skipped = 0;
  /** Its first request. */
  first: Request | undefined = undefined;
  /** The start that the policy waits for. */
  awaited: Instant = ALWAYS;
  frontrun: Instant = ALWAYS;
  latest: Instant = ALWAYS;
  expectedRun = 0 as Micros;
  /**
   * True if one more request, not at the head, could change the choice: neither deadline nor profile limits the batch.
   */
  isGrowable = true;

  /**
   * `awaited` of the last offer. The candidate's execAt also moves with the clock, which is no reason for a new offer.
   */
  offeredAwaited: Instant = ALWAYS;
  /** The first request of the last offer, and the first offer that was made with it. */
  offeredHead: Request | undefined = undefined;
  headOfferSeq = 0;
  /** First time at which the ranker's timer for the offered head was or will be due. */
  headDueAt: Instant = NEVER;
  /** The head, while M7 keeps it. */
  keptHead: Request | undefined = undefined;

  /** The first request by deadline; of those that aim at a later step only where there is no other. */
  get head(): Request | undefined {
    return this.queue.head() ?? this.later?.head();
  }

  constructor(config: ModelThreadConfig) {
    assert(config.patience >= 0 && config.patience <= 1, `patience ${config.patience}`);
    assert(config.batchesInFlightMax >= 1, `${config.batchesInFlightMax} batches in flight`);
    const { thread, term, profile, ctrl, perItem, respond } = config;
    this.thread = thread;
    this.term = term;
    this.slo = config.slo;
    this.policy = config.policy;
    this.prefer = config.prefer ?? "accelerators";
    this.patience = config.patience;
    this.queue = new DeadlineQueue(config.queueMax);
    const fixed = config.gather === "head" ? 1 : (config.targetBatch ?? 0);
    this.targets = new BatchTargets(fixed, { profile, ctrl, perItem, respond });
    this.inFlightBatches = new InFlightBatches(config.batchesInFlightMax);
    this.shares = new FairShares(config.shares ?? {}, config.slo);
    this.refusals = new CountedRefusals(this.shares, (request) => keepLater(this, request));
    this.profile = profile;
    this.dynamic = config.dynamic === undefined ? undefined : new DynamicPart(config.dynamic);
    this.unfit = config.unfit ?? NONE_UNFIT;
    this.latencies = profile.byBatchSize;
    this.batchSizeMax = profile.batchSizeMax;
    this.epoch = config.epoch;
    this.adaptation = config.policy.kind === "adaptive" ? adaptationTo(NaN) : NO_ADAPTATION;
    this.guard = config.guard;
    this.ctrl = ctrl;
    this.perItem = perItem;
    this.respond = respond;
    this.fastest = config.fastest && new FastestPart(config.fastest, this);
    this.nextBatchId = config.batchIdBase ?? 1;
    if (config.since !== undefined) this.rate.begin(config.since);
    const { unfit } = this;
    const takes = config.isForJobs === true ? { takes: profile.latency(1) } : undefined;
    this.offered = {
      ...{ thread, term, offerSeq: 0, batchSize: 0, execAt: ALWAYS, latest: ALWAYS, delay: ctrl, unfit },
      ...takes,
    };
  }
}

export function createModelThread(config: ModelThreadConfig): ModelThread {
  return new ModelThread(config);
}
