import { type ActorKey, type GpuId, type Instant, type Micros, type ThreadId, millis, seconds } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";
import type { CandidateOffered } from "./hot-messages.ts";
import type { Role } from "./subjects.ts";
import type { ArrivalReports, BatchReports, RefusalReport } from "./reports.ts";

/** Address of an ingress's data plane besides NATS; an executor checks it by connecting. */
export interface DataAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

/** Longest time between heartbeats of an idle actor. */
export const IDLE_HEARTBEAT_MAX = seconds(10);

/** Address at which processes of the same host reach each other without the server. */
export interface LinkAddress {
  /** Id of the process, not of the actor: a node has several actors. */
  readonly process: string;
  /** Path of a Unix socket. */
  readonly path: string;
  /** Public key of the process (Ed25519, base64 of the DER form), by which the socket's owner proves its identity. */
  readonly publicKey: string;
}

/** Sent by every actor several times a second on its role's beat subject; the last one says `leaving`. */
export const Heartbeat = packed<{
  readonly key: ActorKey;
  readonly role: Role;
  readonly host: string;
  readonly pid: number;
  readonly sentAt: Instant;
  readonly startedAt: Instant;
  readonly leaving: boolean;
  /** Time until the next one, if it is longer than usual: the actor is idle, or many listen. */
  readonly every?: Micros;
  /** Address for processes of its host; not in every heartbeat. */
  readonly link?: LinkAddress;
  /** ranker: the epoch in which it leads (0: a standby). */
  readonly epoch?: number;
  /** ranker: its sub-cluster. */
  readonly subCluster?: string;
  /** ranker: it leads and wants to leave. It grants until another leads. */
  readonly yields?: boolean;
  /** ranker: grants given so far; while they rise, standbys watch closely. */
  readonly grants?: number;
  /** ingress: address of its data plane. */
  readonly address?: DataAddress;
  /** ingress: the last arrival it sent, by thread, so that the loss of the last one is noticed. */
  readonly arrivals?: readonly { readonly thread: ThreadId; readonly term: number; readonly arrivalSeq: number }[];
  /** batcher: its current candidates. */
  readonly offers?: readonly CandidateOffered[];
  /** batcher: true if it accepts models now: only once it can serve them, and no longer when it leaves. */
  readonly takes?: boolean;
  /** batcher: load, which is the requests a second of its models plus ten for each model. */
  readonly load?: number;
  /**
   * batcher: numbers of models that it has just restarted because they answered nothing. Their earlier offers are void.
   */
  readonly stalled?: readonly number[];
  /** executor: its accelerators. */
  readonly gpus?: readonly GpuState[];
}>({ tag: 64, name: "heartbeat", from: "every actor", to: "every actor", repair: "the next one" });
export type Heartbeat = MessageOf<typeof Heartbeat>;

export interface GpuState {
  readonly gpu: GpuId;
  readonly freeAt: Instant;
  /** The newest epoch and sequence that it has accepted. */
  readonly epoch: number;
  readonly grantSeq: number;
  /** Sub-cluster whose leader the executor follows. */
  readonly subCluster: string;
  /** False while it loads models that it must serve, drains, or profiles: the ranker then grants it nothing. */
  readonly serving: boolean;
  /** True if nothing runs on it and no batch waits for it. */
  readonly idle?: boolean;
  readonly type: string;
}

/** Announces a new leader. Executors answer with GpuJoined, batchers offer again; older epochs are ignored (T5). */
export const RankerAnnounced = packed<{ readonly key: ActorKey; readonly epoch: number; readonly subCluster: string }>({
  tag: 65,
  name: "ranker-announced",
  from: "ranker",
  to: "executor, batcher",
  repair: "its heartbeats carry the epoch",
});
export type RankerAnnounced = MessageOf<typeof RankerAnnounced>;

/**
 * Announces that a standby asks the store for the lease of the leader with that epoch, or is about to. For
 * LEAD_EXPECTED_FOR it receives the same reports of accelerators and candidates as the leader, so that it can grant as
 * soon as it has the lease. Executors answer with GpuJoined under the epoch that they still follow, batchers with their
 * candidates.
 */
export const LeadExpected = packed<{ readonly key: ActorKey; readonly epoch: number; readonly subCluster: string }>({
  tag: 76,
  name: "lead-expected",
  from: "ranker",
  to: "executor, batcher",
  repair: "the announcement that follows it",
});
export type LeadExpected = MessageOf<typeof LeadExpected>;

/** Time for which LeadExpected holds: a reachable store answers within some ms. */
export const LEAD_EXPECTED_FOR = millis(100);

/** Offers accelerators for grants. By answering epoch e, an executor promises to accept nothing older. */
export const GpuJoined = packed<{
  readonly executor: ActorKey;
  readonly epoch: number;
  readonly gpus: readonly GpuState[];
}>({
  tag: 66,
  name: "gpu-joined",
  from: "executor",
  to: "ranker",
  repair: "its heartbeats carry the same",
});
export type GpuJoined = MessageOf<typeof GpuJoined>;

export const ExecutorLost = packed<{
  readonly executor: ActorKey;
  readonly gpus: readonly GpuId[];
  readonly epoch: number;
}>({
  tag: 67,
  name: "executor-lost",
  from: "ranker",
  to: "batcher",
  repair: "batchers notice missed heartbeats themselves",
});
export type ExecutorLost = MessageOf<typeof ExecutorLost>;

/** An ingress introduces itself to a batcher: the secret signs the tokens of batches that may pull from it. */
export const IngressIntroduced = packed<{
  readonly ingress: ActorKey;
  readonly secret: Uint8Array;
  readonly respond: Micros;
}>({
  tag: 68,
  name: "ingress-introduced",
  from: "ingress",
  to: "batcher",
  repair: "sent again every second",
});
export type IngressIntroduced = MessageOf<typeof IngressIntroduced>;

/** Reports that an executor has loaded a model, or why it could not. */
export const ModelReported = packed<{
  readonly executor: ActorKey;
  readonly gpus: readonly GpuId[];
  readonly type: string;
  readonly model: string;
  readonly number: number;
  readonly version: string;
  readonly state: "loaded" | "failed" | "unloaded";
  readonly reason: string;
  readonly memoryBytes: number;
}>({
  tag: 69,
  name: "model-reported",
  from: "executor",
  to: "profiler",
  repair: "sent again every second until the model is ready",
});
export type ModelReported = MessageOf<typeof ModelReported>;

/** Asks an executor to measure l(b) of one bucket: `runs` runs at each size, in idle time. */
export const ProfileWanted = packed<{
  readonly profiler: ActorKey;
  readonly gpu: GpuId;
  readonly model: string;
  readonly number: number;
  readonly bucket: number;
  readonly batchSizes: readonly number[];
  readonly runs: number;
  /** Time after which a size is stopped early. */
  readonly budget: Micros;
}>({
  tag: 70,
  name: "profile-wanted",
  from: "profiler",
  to: "executor",
  repair: "sent again when no ProfileMeasured came",
});
export type ProfileWanted = MessageOf<typeof ProfileWanted>;

export const ProfileMeasured = packed<{
  readonly executor: ActorKey;
  readonly gpu: GpuId;
  readonly type: string;
  readonly model: string;
  readonly number: number;
  readonly bucket: number;
  /** Duration of each run, µs, by batch size. */
  readonly samples: readonly { readonly batchSize: number; readonly runs: readonly number[] }[];
  readonly failure: string;
}>({ tag: 71, name: "profile-measured", from: "executor", to: "profiler", repair: "ProfileWanted is sent again" });
export type ProfileMeasured = MessageOf<typeof ProfileMeasured>;

/** An actor's figures of the last second, for the status line, `tutti status` and metrics. Numbers only, by name. */
export const StatsReported = packed<{
  readonly key: ActorKey;
  readonly role: Role;
  readonly at: Instant;
  readonly figures: Readonly<Record<string, number>>;
  readonly perThread?: readonly {
    readonly thread: ThreadId;
    readonly name: string;
    readonly figures: Readonly<Record<string, number>>;
  }[];
  readonly perGpu?: readonly { readonly gpu: GpuId; readonly figures: Readonly<Record<string, number>> }[];
  /**
   * ingress: figures of variants of families, of pipelines, and of their stages; `of` is the family or the pipeline.
   */
  readonly perPart?: readonly {
    readonly kind: "variant" | "pipeline" | "stage";
    readonly of: string;
    readonly name: string;
    readonly figures: Readonly<Record<string, number>>;
  }[];
  /** Events since the last report, for people (reports.ts): `batches` from batchers, the others from ingresses. */
  readonly batches?: BatchReports;
  readonly arrivals?: ArrivalReports;
  readonly refusals?: readonly RefusalReport[];
}>({ tag: 72, name: "stats-reported", from: "every actor", to: "whoever listens", repair: "the next one" });
export type StatsReported = MessageOf<typeof StatsReported>;

/**
 * The holder of a model's lease offers it to a batcher that has fewer models, or because the holder leaves. The taker
 * writes the lease by compare-and-set. The holder serves the model as before until it sees that write.
 */
export const ModelOffered = packed<{
  readonly model: string;
  readonly number: number;
  readonly term: number;
  /** Control delay and delay per item (in nanoseconds) of each bucket, as the holder has measured them. */
  readonly delays: readonly { readonly ctrl: Micros; readonly perItemNs: number }[];
}>({ tag: 73, name: "model-offered", from: "batcher", to: "batcher", repair: "sent again every 20 ms" });
export type ModelOffered = MessageOf<typeof ModelOffered>;

/** Value of `memoryBytesMax` for an executor without a declared capacity. */
export const MEMORY_UNBOUNDED = Number.MAX_SAFE_INTEGER;

/** Models that an executor has loaded and the memory that they take, for the placement of models. */
export const ExecutorInventory = packed<{
  readonly executor: ActorKey;
  readonly gpus: readonly GpuId[];
  readonly type: string;
  readonly subCluster: string;
  /**
   * Bytes of its models together, and the most that it may use, on each accelerator. MEMORY_UNBOUNDED: as much as there
   * is.
   */
  readonly memoryBytes: number;
  readonly memoryBytesMax: number;
  readonly models: readonly { readonly number: number; readonly version: string; readonly memoryBytes: number }[];
}>({
  tag: 74,
  name: "executor-inventory",
  from: "executor",
  to: "planner, profiler",
  repair: "sent again every second, and at once when something changes",
});
export type ExecutorInventory = MessageOf<typeof ExecutorInventory>;

/** Number of accelerators that the load needs: the planner's advice for its last window (docs/algorithms.md, A8). */
export const ScalingAdvised = packed<{
  readonly at: Instant;
  /** Accelerators to add (positive) or to release (negative). */
  readonly advice: number;
  /** Accelerators that serve or are about to. With `advice` added, it is the number that there ought to be. */
  readonly gpus: number;
  readonly badRate: number;
  readonly idleShare: number;
}>({
  tag: 75,
  name: "scaling-advised",
  from: "planner",
  to: "whoever listens on the subject of advice",
  repair: "sent again every second",
});
export type ScalingAdvised = MessageOf<typeof ScalingAdvised>;
