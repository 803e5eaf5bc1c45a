import { type ActorKey, type GpuId, type Instant, type Micros, type ThreadId, millis, seconds } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";
import type { CandidateOffered } from "./hot-messages.ts";
import type { Role } from "./subjects.ts";
import type { ArrivalReports, BatchReports, RefusalReport } from "./reports.ts";

/** How an executor reaches an ingress' data plane besides NATS; checked by connecting. */
export interface DataAddress {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

/** An actor that has nothing to do is heard of at least so often. */
export const IDLE_HEARTBEAT_MAX = seconds(10);

/** How processes of the same host reach each other without the server between them. */
export interface LinkAddress {
  /** The process, not the actor: a node has several actors. */
  readonly process: string;
  /** A Unix socket. */
  readonly path: string;
  /** Its public key (Ed25519, base64 of the DER form): who answers there proves to be that process. */
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
  /** The next one comes after so long: it has nothing to do, or many listen. */
  readonly every?: Micros;
  /** Where processes of its host connect to; not in every one. */
  readonly link?: LinkAddress;
  /** ranker: the epoch it leads with (0: a spare). */
  readonly epoch?: number;
  /** ranker: of which sub-cluster. */
  readonly subCluster?: string;
  /** ranker: it leads and wants to leave. It grants until another leads. */
  readonly yields?: boolean;
  /** ranker: grants given so far; while they rise, spares look closely. */
  readonly grants?: number;
  /** ingress: where its data plane listens. */
  readonly address?: DataAddress;
  /** ingress: the last arrival it sent, by thread, so that a lost last one is noticed. */
  readonly arrivals?: readonly { readonly thread: ThreadId; readonly term: number; readonly arrivalSeq: number }[];
  /** batcher: its current candidates. */
  readonly offers?: readonly CandidateOffered[];
  /** batcher: whether it takes models now. Not before it can serve them, and not once it leaves. */
  readonly takes?: boolean;
  /** batcher: requests a second of its models, and ten for each of them. */
  readonly load?: number;
  /**
   * batcher: numbers of models that it has just started anew because they answered nothing. What was offered of them
   * before is void.
   */
  readonly stalled?: readonly number[];
  /** executor: its accelerators. */
  readonly gpus?: readonly GpuState[];
}>({ tag: 64, name: "heartbeat", from: "every actor", to: "every actor", repair: "the next one" });
export type Heartbeat = MessageOf<typeof Heartbeat>;

export interface GpuState {
  readonly gpu: GpuId;
  readonly freeAt: Instant;
  /** The newest epoch and sequence that it obeyed. */
  readonly epoch: number;
  readonly grantSeq: number;
  /** Whose leader it obeys. */
  readonly subCluster: string;
  /** False while it loads what it must serve, drains, or profiles: the ranker grants it nothing. */
  readonly serving: boolean;
  /** Nothing runs on it, and no batch waits for it. */
  readonly idle?: boolean;
  readonly type: string;
}

/** A new leader: executors answer with GpuJoined, batchers offer again; older epochs are obeyed no more (T5). */
export const RankerAnnounced = packed<{ readonly key: ActorKey; readonly epoch: number; readonly subCluster: string }>({
  tag: 65,
  name: "ranker-announced",
  from: "ranker",
  to: "executor, batcher",
  repair: "its heartbeats carry the epoch",
});
export type RankerAnnounced = MessageOf<typeof RankerAnnounced>;

/**
 * A spare asks the store for the lease of the leader with that epoch, or is about to. For LEAD_EXPECTED_FOR it is told
 * what the leader is told of accelerators and candidates, so that it can grant as soon as it has the lease: executors
 * answer with GpuJoined under the epoch that they still obey, batchers with their candidates.
 */
export const LeadExpected = packed<{ readonly key: ActorKey; readonly epoch: number; readonly subCluster: string }>({
  tag: 76,
  name: "lead-expected",
  from: "ranker",
  to: "executor, batcher",
  repair: "the announcement that follows it",
});
export type LeadExpected = MessageOf<typeof LeadExpected>;

/** A store that is there answers within some ms. */
export const LEAD_EXPECTED_FOR = millis(100);

/** An accelerator is there to be granted. By answering epoch e an executor promises to obey nothing older. */
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

/** What an executor has loaded, or why it could not. */
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

/** Measure l(b) of one bucket: `runs` runs at each size, in idle time. */
export const ProfileWanted = packed<{
  readonly profiler: ActorKey;
  readonly gpu: GpuId;
  readonly model: string;
  readonly number: number;
  readonly bucket: number;
  readonly batchSizes: readonly number[];
  readonly runs: number;
  /** Stop a size early once it has used this much. */
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
  /** Microseconds of each run, by batch size. */
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
  /** Of ingresses: variants of families, pipelines, and their stages; `of` is the family or the pipeline. */
  readonly perPart?: readonly {
    readonly kind: "variant" | "pipeline" | "stage";
    readonly of: string;
    readonly name: string;
    readonly figures: Readonly<Record<string, number>>;
  }[];
  /** What happened since the last one, for people who look (told.ts): of batchers; of ingresses. */
  readonly batches?: BatchReports;
  readonly arrivals?: ArrivalReports;
  readonly refusals?: readonly RefusalReport[];
}>({ tag: 72, name: "stats-reported", from: "every actor", to: "whoever listens", repair: "the next one" });
export type StatsReported = MessageOf<typeof StatsReported>;

/**
 * The holder of a model's lease offers it to a batcher that has fewer, or because it leaves itself. Who takes it writes
 * the lease by compare-and-set; until the holder is shown that, it serves the model as before.
 */
export const ModelOffered = packed<{
  readonly model: string;
  readonly number: number;
  readonly term: number;
  /**
   * What the control delay and the delay per item (in nanoseconds) of each bucket are, as the holder has measured them.
   */
  readonly delays: readonly { readonly ctrl: Micros; readonly perItemNs: number }[];
}>({ tag: 73, name: "model-offered", from: "batcher", to: "batcher", repair: "sent again every 20 ms" });
export type ModelOffered = MessageOf<typeof ModelOffered>;

/** Of an executor without a declared capacity. */
export const MEMORY_UNBOUNDED = Number.MAX_SAFE_INTEGER;

/** What an executor has loaded and how much memory that takes, for whoever places models. */
export const ExecutorInventory = packed<{
  readonly executor: ActorKey;
  readonly gpus: readonly GpuId[];
  readonly type: string;
  readonly subCluster: string;
  /**
   * Of its models together and what it may use at most, on each of its accelerators; MEMORY_UNBOUNDED: as much as there
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

/** How many accelerators the load needs: the planner's advice of its last window (docs/algorithms.md, A8). */
export const ScalingAdvised = packed<{
  readonly at: Instant;
  /** To add (positive) or to release (negative). */
  readonly advice: number;
  /** Accelerators that serve, or are about to: with `advice` added, how many there ought to be. */
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
