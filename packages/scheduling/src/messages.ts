/**
 * Input events and effects of a ModelThread and a RankThread. They are plain data, which the actors put on the wire.
 * docs/architecture.md, sections 2 to 4; docs/algorithms.md, A3 and A4.
 */
import type { CostStep } from "@tutti/dynamic";
import type { LatencyTable } from "@tutti/profile";
import type { UnfitTypes } from "./rank-thread/accelerator-classes.ts";
import type { DynamicProfile } from "./dynamic/dynamic-profile.ts";
import type { FastestType } from "./batches/typed-choice.ts";
import type { ActorKey, BatchId, GpuId, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";

export interface Request {
  readonly ingress: ActorKey;
  readonly seq: RequestSeq;
  /** Time by which the result must be ready at the executor: d_resp is already taken off. */
  readonly deadline: Instant;
  readonly arrivedAt: Instant;
  /** SLO that the publisher asked for, with d_resp not taken off. */
  readonly slo: Micros;
  /** Number of the application. */
  readonly app: number;
  /** 0 … 255, the highest first; 0 when left out. It matters only under overload, within the application. */
  readonly priority?: number;
  /** True for the system's own warm-up requests, which fair shares don't count. */
  readonly isOwn?: boolean;
  /** Bytes of input. */
  readonly size: number;
  /** Size hint: the request's length in the model's own unit; 0 when left out. */
  readonly units?: number;
  /** Costs of a late answer (B8). The first step is at the deadline. Left out: an answer after it is worth nothing. */
  readonly steps?: readonly CostStep[] | undefined;
}

/** A batch that a ModelThread offers to run (A3). `offerSeq` rises within a term; (term, offerSeq) orders offers. */
export interface Candidate {
  thread: ThreadId;
  term: number;
  offerSeq: number;
  /** Size of the batch; 0: nothing to offer, forget the last one. */
  batchSize: number;
  /** Planned start: the later of the earliest start and the start that the policy waits for. */
  execAt: Instant;
  /** Last start that meets the head's deadline. */
  latest: Instant;
  /** Time from sending the plan until the executor can start it, with its inputs pulled. */
  delay: Micros;
  /** Executor types that can't run it in time: it isn't granted theirs. Mostly none. */
  unfit: UnfitTypes;
  /** Run time of a batch of jobs (A13): it gets only time that no request needs. Left out: a batch of requests. */
  takes?: Micros;
}

/** A grant of an accelerator for one batch. The receiver may keep it. */
export interface Grant {
  thread: ThreadId;
  term: number;
  /** The newest offer that the ranker had seen. */
  offerSeq: number;
  gpu: GpuId;
  executor: ActorKey;
  /** Epoch of the ranker's lease. */
  epoch: number;
  /** Sequence per accelerator, rising within an epoch. */
  grantSeq: number;
  /** Time at which the accelerator ends its earlier batches; `ALWAYS` if it was given none yet. */
  freeAt: Instant;
  sentAt: Instant;
  /** Last moment at which the grant is accepted; later it is ignored without an answer. */
  validUntil: Instant;
  /** The highest scarcity of accelerators that any model has reported lately: 0 … 255. */
  scarcity: number;
}

/** A batch on its way to an executor. Its receiver may keep it, and change only `askAt` and `askings`. */
export interface DispatchedBatch {
  batchId: BatchId;
  thread: ThreadId;
  term: number;
  grant: Grant;
  /** Requests in deadline order; never empty. */
  requests: Request[];
  /** Planned start. */
  startAt: Instant;
  latest: Instant;
  /** `ALWAYS` when the batch is as large as it may get. */
  frontrun: Instant;
  expectedRun: Micros;
  /** Time that was kept in hand for its reserve when it was planned, µs. */
  reserve: number;
  /** When its executor is asked about it, and how often it was: kept by whoever sent it. */
  askAt: Instant;
  askings: number;
}

export type ModelEvent =
  | { kind: "request-arrived"; at: Instant; request: Request }
  /** Cancelled, or its deadline timer fired: removed without an answer if still queued. */
  | { kind: "request-withdrawn"; at: Instant; ingress: ActorKey; seq: RequestSeq }
  | { kind: "ingress-lost"; at: Instant; ingress: ActorKey }
  /** `own`: latencies on that accelerator where they are known; as planned where not. */
  | { kind: "gpu-granted"; at: Instant; grant: Grant; own?: LatencyTable }
  /** The time `nextWakeAt(model)` was reached. */
  | { kind: "clock-reached"; at: Instant }
  /** The batch's requests go back into the queue (T4). */
  | { kind: "batch-refused"; at: Instant; batchId: BatchId }
  /** `run`: time that the accelerator took; `end`: time at which its results were there. Both only where known. */
  | { kind: "batch-finished"; at: Instant; batchId: BatchId; run?: Micros; end?: Instant }
  /** The batches in flight on it go back into the queue. */
  | { kind: "executor-lost"; at: Instant; executor: ActorKey }
  /** Without `dynamic`, the model's running time does not depend on its input. */
  | {
      kind: "profile-changed";
      at: Instant;
      profile: LatencyTable;
      dynamic?: DynamicProfile | undefined;
      /** Default: any executor type can run it. */
      unfit?: UnfitTypes;
      /** Default: all types are alike. */
      fastest?: FastestType | undefined;
    }
  | { kind: "delays-changed"; at: Instant; ctrl: Micros; perItem: Micros; respond: Micros; guard: Micros }
  /** A newer epoch: offer again; older grants are ignored from now on. */
  | { kind: "ranker-changed"; at: Instant; epoch: number }
  /** The leader of another sub-cluster counts from now on, whatever its epoch: offer to it. 0: it has no leader yet. */
  | { kind: "sub-cluster-changed"; at: Instant; epoch: number };

/** T3: could not have run even alone, or dropped so that batches stay efficient (or the queue bounded). */
export type RefusalCause = "infeasible" | "overloaded";

/**
 * Sink for a ModelThread's effects. Arguments are borrowed until the call returns, unless their type says otherwise.
 */
export interface ModelEffects {
  offer(candidate: Candidate): void;
  /**
   * Answers a grant: exactly once per accepted grant, after its dispatch and before the next offer.
   *
   * @param freeAt - when the accelerator is free again, as far as this model knows
   * @param offerSeq - of the newest offer; the answer voids it and all before it
   * @param scarcity - of accelerators, as this model sees it: 0 … 255
   */
  answerGrant(grant: Grant, used: boolean, freeAt: Instant, offerSeq: number, scarcity: number): void;
  dispatch(batch: DispatchedBatch): void;
  /**
   * @param feasible - at least this SLO would have been needed; +Infinity where time was not the cause (a full queue)
   */
  refuse(request: Request, cause: RefusalCause, feasible: Micros): void;
}

export type RankEvent =
  /** Ordered by (term, offerSeq). An offer that is not newer than the newest, or than the last answer, is ignored. */
  | { kind: "candidate-offered"; at: Instant; candidate: Candidate }
  | {
      kind: "grant-answered";
      at: Instant;
      thread: ThreadId;
      term: number;
      gpu: GpuId;
      grantSeq: number;
      used: boolean;
      freeAt: Instant;
      /** Offers up to this one are void. */
      offerSeq: number;
      /** Scarcity of accelerators, as the model sees it: 0 … 255. */
      scarcity: number;
    }
  /** `type`: number of its executor's type, as in `Candidate.unfit`. */
  | { kind: "gpu-joined"; at: Instant; gpu: GpuId; executor: ActorKey; type: number; freeAt: Instant; grantSeq: number }
  /**
   * Reports when an accelerator is free, or answers `askGpu`; only the newest grantSeq counts. `NEVER`: paused.
   * `ended`: because a granted batch has ended.
   */
  | {
      kind: "gpu-freed";
      at: Instant;
      gpu: GpuId;
      executor: ActorKey;
      grantSeq: number;
      freeAt: Instant;
      ended?: boolean;
    }
  | { kind: "gpu-lost"; at: Instant; gpu: GpuId; executor: ActorKey }
  | { kind: "model-gone"; at: Instant; thread: ThreadId }
  | { kind: "ctrl-delay-changed"; at: Instant; ctrl: Micros }
  | { kind: "clock-reached"; at: Instant };

export interface RankEffects {
  grant(grant: Grant): void;
  /** A grant's validUntil passed unanswered. Ask the accelerator itself; its answer is a gpu-freed of this grantSeq. */
  askGpu(gpu: GpuId, executor: ActorKey, grantSeq: number): void;
}
