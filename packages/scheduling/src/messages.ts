/**
 * What goes into and comes out of a ModelThread and a RankThread. Plain data: the actors put it on the wire.
 * docs/architecture.md, sections 2 to 4; docs/algorithms.md, A3 and A4.
 */
import type { LatencyTable } from "@tutti/profile";
import type { DynamicProfile } from "./dynamic/dynamic-profile.ts";
import type { ActorKey, BatchId, GpuId, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";

export interface Request {
  readonly ingress: ActorKey;
  readonly seq: RequestSeq;
  /** When the result must be ready at the executor: already less d_resp. */
  readonly deadline: Instant;
  readonly arrivedAt: Instant;
  /** As asked for, before d_resp is taken off. */
  readonly slo: Micros;
  /** Number of the application. */
  readonly app: number;
  /** 0 … 255, the highest first; 0 when left out. Matters under overload only, within the application. */
  readonly priority?: number;
  /** Of the system's own requests, which warm something up: fair shares don't count them. */
  readonly isOwn?: boolean;
  /** Bytes of input. */
  readonly size: number;
  /** Size hint: its length in the model's own unit; 0 when left out. */
  readonly units?: number;
}

/** What a ModelThread would like to run: A3. `offerSeq` rises within a term; (term, offerSeq) orders offers. */
export interface Candidate {
  thread: ThreadId;
  term: number;
  offerSeq: number;
  /** 0: nothing to offer, forget the last one. */
  batchSize: number;
  /** Planned start: max(earliest, what the policy waits for). */
  execAt: Instant;
  /** Last start that meets the head's deadline. */
  latest: Instant;
  /** From sending the plan until the executor can start it, inputs pulled. */
  delay: Micros;
}

/** An accelerator, for one batch. The receiver may keep it. */
export interface Grant {
  thread: ThreadId;
  term: number;
  /** Of the newest offer that the ranker had seen. */
  offerSeq: number;
  gpu: GpuId;
  executor: ActorKey;
  /** Of the ranker's lease. */
  epoch: number;
  /** Per accelerator, rising within an epoch. */
  grantSeq: number;
  /** When the accelerator ends what it was given before; `ALWAYS` if it was given nothing yet. */
  freeAt: Instant;
  sentAt: Instant;
  /** Obeyed until then, that moment included; ignored without an answer after it. */
  validUntil: Instant;
}

/** A batch on its way to an executor. The receiver may keep it, but not change it. */
export interface DispatchedBatch {
  batchId: BatchId;
  thread: ThreadId;
  term: number;
  grant: Grant;
  /** In deadline order; never empty. */
  requests: Request[];
  /** Planned start. */
  startAt: Instant;
  latest: Instant;
  /** `ALWAYS` when the batch is as large as it may get. */
  frontrun: Instant;
  expectedRun: Micros;
}

export type ModelEvent =
  | { kind: "request-arrived"; at: Instant; request: Request }
  /** Cancelled, or its deadline timer fired: removed without an answer if still queued. */
  | { kind: "request-withdrawn"; at: Instant; ingress: ActorKey; seq: RequestSeq }
  | { kind: "ingress-lost"; at: Instant; ingress: ActorKey }
  | { kind: "gpu-granted"; at: Instant; grant: Grant }
  /** `nextWakeAt(model)` came. */
  | { kind: "clock-reached"; at: Instant }
  /** Its requests go back into the queue (T4). */
  | { kind: "batch-refused"; at: Instant; batchId: BatchId }
  /** `run`: how long the accelerator took; `end`: when its results were there. Where that is known. */
  | { kind: "batch-finished"; at: Instant; batchId: BatchId; run?: Micros; end?: Instant }
  /** Its held batches go back into the queue. */
  | { kind: "executor-lost"; at: Instant; executor: ActorKey }
  /** Without `dynamic` the model's running time does not depend on its input. */
  | { kind: "profile-changed"; at: Instant; profile: LatencyTable; dynamic?: DynamicProfile | undefined }
  | { kind: "delays-changed"; at: Instant; ctrl: Micros; perItem: Micros; respond: Micros; guard: Micros }
  /** A newer epoch: offer again; older grants are ignored from now on. */
  | { kind: "ranker-changed"; at: Instant; epoch: number }
  /** The leader of another sub-cluster counts from now on, whatever its epoch: offer to it. 0: it has none yet. */
  | { kind: "sub-cluster-changed"; at: Instant; epoch: number };

/** T3: could not have run even alone, or dropped so that batches stay efficient (or the queue bounded). */
export type RefusalCause = "infeasible" | "overloaded";

/**
 * Where a ModelThread's effects go. What is passed is borrowed until the call returns, unless its type says otherwise.
 */
export interface ModelEffects {
  offer(candidate: Candidate): void;
  /**
   * Exactly once per obeyed grant, after its dispatch and before the next offer.
   *
   * @param freeAt - when the accelerator is free again, as far as this model knows
   * @param offerSeq - of the newest offer; the answer voids it and all before it
   */
  answerGrant(grant: Grant, used: boolean, freeAt: Instant, offerSeq: number): void;
  dispatch(batch: DispatchedBatch): void;
  /** @param feasible - least SLO that would have been met; +Infinity where time was not the cause (a full queue) */
  refuse(request: Request, cause: RefusalCause, feasible: Micros): void;
}

export type RankEvent =
  /** Ordered by (term, offerSeq); one that is not newer than the newest, or than the last answer, is ignored. */
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
    }
  | { kind: "gpu-joined"; at: Instant; gpu: GpuId; executor: ActorKey; freeAt: Instant; grantSeq: number }
  /** A completion report, or the answer to `askGpu`; obeyed of the newest grantSeq only. `NEVER`: paused. */
  | { kind: "gpu-freed"; at: Instant; gpu: GpuId; executor: ActorKey; grantSeq: number; freeAt: Instant }
  | { kind: "gpu-lost"; at: Instant; gpu: GpuId; executor: ActorKey }
  | { kind: "model-gone"; at: Instant; thread: ThreadId }
  | { kind: "ctrl-delay-changed"; at: Instant; ctrl: Micros }
  | { kind: "clock-reached"; at: Instant };

export interface RankEffects {
  grant(grant: Grant): void;
  /** A grant's validUntil passed unanswered: ask the accelerator itself; its answer is a gpu-freed of this grantSeq. */
  askGpu(gpu: GpuId, executor: ActorKey, grantSeq: number): void;
}
