import { type Micros, millis, seconds } from "@tutti/units";
import { type MessageOf, packed } from "../fields.ts";
import { MODELS_MAX } from "../limits.ts";
import { TYPES_MAX } from "../stored/model-spec.ts";
import { type Schema, type Static, schema } from "../schema.ts";
import type { CandidateOffered, JobOffered } from "./hot-messages.ts";

/** Address of an ingress's data plane besides NATS; an executor checks it by connecting. */
export const DataAddress = schema.record({
  host: schema.text(),
  port: schema.whole(0, 65_535),
  tls: schema.flag,
  /**
   * Secret of the ingress' port: a peer that doesn't know it is not let in. Only who may hear heartbeats knows it.
   * Without it executors don't connect.
   */
  secret: schema.optional(schema.text()),
});
export type DataAddress = Static<typeof DataAddress>;

/** Longest time between heartbeats of an idle actor. */
export const IDLE_HEARTBEAT_MAX = seconds(10);

/** Address at which processes of the same host reach each other without the server. */
export const LinkAddress = schema.record({
  /** Id of the process, not of the actor: a node has several actors. */
  process: schema.text(),
  /** Path of a Unix socket. */
  path: schema.text(),
  /** Public key of the process (Ed25519, base64 of the DER form), by which the socket's owner proves its identity. */
  publicKey: schema.text(),
});
export type LinkAddress = Static<typeof LinkAddress>;

export const GpuState = schema.record({
  gpu: schema.gpu,
  freeAt: schema.instant,
  /** The newest epoch and sequence that it has accepted. */
  epoch: schema.count,
  grantSeq: schema.count,
  /** Sub-cluster whose leader the executor follows. */
  subCluster: schema.name,
  /** False while it loads models that it must serve, drains, or profiles: the ranker then grants it nothing. */
  serving: schema.flag,
  /** True if nothing but jobs runs on it or waits for it. */
  idle: schema.optional(schema.flag),
  type: schema.text(),
});
export type GpuState = Static<typeof GpuState>;

/** As it is offered. */
type StandingOffer = Omit<CandidateOffered, "unfit"> & Partial<Pick<CandidateOffered, "unfit">>;
const offer = {
  thread: schema.thread,
  batchSize: schema.count,
  term: schema.count,
  offerSeq: schema.count,
  execAt: schema.instant,
  latest: schema.instant,
  delay: schema.micros,
  unfit: schema.optional(schema.list(schema.record({ type: schema.count }), TYPES_MAX)),
};
const Candidate: Schema<StandingOffer> = schema.record(offer);
type StandingJobs = StandingOffer & Pick<JobOffered, "takes">;
const JobCandidate: Schema<StandingJobs> = schema.record({ ...offer, takes: schema.micros });

/** Sent by every actor several times a second on its role's beat subject; the last one says `leaving`. */
export const Heartbeat = packed(
  {
    key: schema.actor,
    role: schema.role,
    host: schema.text(),
    pid: schema.count,
    sentAt: schema.instant,
    startedAt: schema.instant,
    leaving: schema.flag,
    /** Time until the next one, if it is longer than usual: the actor is idle, or many listen. */
    every: schema.optional(schema.whole<Micros>(0, IDLE_HEARTBEAT_MAX)),
    /** Address for processes of its host; not in every heartbeat. */
    link: schema.optional(LinkAddress),
    /** ranker: the epoch in which it leads (0: a standby). */
    epoch: schema.optional(schema.count),
    /** ranker: its sub-cluster. */
    subCluster: schema.optional(schema.name),
    /** ranker: it leads and wants to leave. It grants until another leads. */
    yields: schema.optional(schema.flag),
    /** ranker: grants given so far; while they rise, standbys watch closely. */
    grants: schema.optional(schema.count),
    /** ingress: address of its data plane. */
    address: schema.optional(DataAddress),
    /** ingress: the last arrival it sent, by thread, so that the loss of the last one is noticed. */
    arrivals: schema.optional(
      schema.list(schema.record({ thread: schema.thread, term: schema.count, arrivalSeq: schema.count })),
    ),
    /** batcher: its current candidates. */
    offers: schema.optional(schema.list(Candidate)),
    /** batcher: its current candidates of jobs. */
    jobOffers: schema.optional(schema.list(JobCandidate)),
    /** batcher, executor: true if it knows the threads of jobs. */
    takesJobs: schema.optional(schema.flag),
    /** batcher: true if it accepts models now: only once it can serve them, and no longer when it leaves. */
    takes: schema.optional(schema.flag),
    /** batcher: load, which is the requests a second of its models plus ten for each model. */
    load: schema.optional(schema.count),
    /**
     * batcher: numbers of models that it has just restarted because they answered nothing. Their earlier offers are
     * void.
     */
    stalled: schema.optional(schema.list(schema.count, MODELS_MAX)),
    /** executor: its accelerators. */
    gpus: schema.optional(schema.list(GpuState)),
  },
  { tag: 64, name: "heartbeat", from: "every actor", to: "every actor", repair: "the next one" },
);
export type Heartbeat = MessageOf<typeof Heartbeat>;

/** Announces a new leader. Executors answer with GpuJoined, batchers offer again; older epochs are ignored (T5). */
export const RankerAnnounced = packed(
  { key: schema.actor, epoch: schema.count, subCluster: schema.name },
  {
    tag: 65,
    name: "ranker-announced",
    from: "ranker",
    to: "executor, batcher",
    repair: "its heartbeats carry the epoch",
  },
);
export type RankerAnnounced = MessageOf<typeof RankerAnnounced>;

/**
 * Announces that a standby asks the store for the lease of the leader with that epoch, or is about to. For
 * LEAD_EXPECTED_FOR it receives the same reports of accelerators and candidates as the leader, so that it can grant as
 * soon as it has the lease. Executors answer with GpuJoined under the epoch that they still follow, batchers with their
 * candidates.
 */
export const LeadExpected = packed(
  { key: schema.actor, epoch: schema.count, subCluster: schema.name },
  {
    tag: 76,
    name: "lead-expected",
    from: "ranker",
    to: "executor, batcher",
    repair: "the announcement that follows it",
  },
);
export type LeadExpected = MessageOf<typeof LeadExpected>;

/** Time for which LeadExpected holds: a reachable store answers within some ms. */
export const LEAD_EXPECTED_FOR = millis(100);

/**
 * Offers accelerators for grants, and says when they are free after runs without a grant and refused batches. By
 * answering epoch e, an executor promises to accept nothing older.
 */
export const GpuJoined = packed(
  {
    executor: schema.actor,
    epoch: schema.count,
    gpus: schema.list(GpuState),
  },
  {
    tag: 66,
    name: "gpu-joined",
    from: "executor",
    to: "ranker",
    repair: "its heartbeats carry the same",
  },
);
export type GpuJoined = MessageOf<typeof GpuJoined>;

export const ExecutorLost = packed(
  {
    executor: schema.actor,
    gpus: schema.list(schema.gpu),
    epoch: schema.count,
  },
  {
    tag: 67,
    name: "executor-lost",
    from: "ranker",
    to: "batcher",
    repair: "batchers notice missed heartbeats themselves",
  },
);
export type ExecutorLost = MessageOf<typeof ExecutorLost>;

/** An ingress introduces itself to a batcher: the secret signs the tokens of batches that may pull from it. */
export const IngressIntroduced = packed(
  {
    ingress: schema.actor,
    secret: schema.bytes(32),
    respond: schema.time,
  },
  {
    tag: 68,
    name: "ingress-introduced",
    from: "ingress",
    to: "batcher",
    repair: "sent again every second",
  },
);
export type IngressIntroduced = MessageOf<typeof IngressIntroduced>;

/** Reports that an executor has loaded a model, or why it could not. */
export const ModelReported = packed(
  {
    executor: schema.actor,
    gpus: schema.list(schema.gpu),
    type: schema.text(),
    model: schema.text(),
    number: schema.count,
    version: schema.text(),
    state: schema.oneOf(["loaded", "failed", "unloaded"]),
    reason: schema.text(),
    memoryBytes: schema.count,
  },
  {
    tag: 69,
    name: "model-reported",
    from: "executor",
    to: "profiler",
    repair: "sent again every second until the model is ready",
  },
);
export type ModelReported = MessageOf<typeof ModelReported>;

/** Asks an executor to measure l(b) of one bucket: `runs` runs at each size, in idle time. */
export const ProfileWanted = packed(
  {
    profiler: schema.actor,
    gpu: schema.gpu,
    model: schema.text(),
    number: schema.count,
    bucket: schema.bucket,
    batchSizes: schema.list(schema.batchSize),
    runs: schema.count,
    /** Time after which a size is stopped early. */
    budget: schema.time,
  },
  {
    tag: 70,
    name: "profile-wanted",
    from: "profiler",
    to: "executor",
    repair: "sent again when no ProfileMeasured came",
  },
);
export type ProfileWanted = MessageOf<typeof ProfileWanted>;

export const ProfileMeasured = packed(
  {
    executor: schema.actor,
    gpu: schema.gpu,
    type: schema.text(),
    model: schema.text(),
    number: schema.count,
    bucket: schema.bucket,
    /** Duration of each run, µs, by batch size. */
    samples: schema.list(schema.record({ batchSize: schema.batchSize, runs: schema.list(schema.count) })),
    failure: schema.text(),
  },
  { tag: 71, name: "profile-measured", from: "executor", to: "profiler", repair: "ProfileWanted is sent again" },
);
export type ProfileMeasured = MessageOf<typeof ProfileMeasured>;

/**
 * The holder of a model's lease offers it to a batcher that has fewer models, or because the holder leaves. The taker
 * writes the lease by compare-and-set. The holder serves the model as before until it sees that write.
 */
export const ModelOffered = packed(
  {
    model: schema.text(),
    number: schema.count,
    term: schema.count,
    /** Control delay and delay per item (in nanoseconds) of each bucket, as the holder has measured them. */
    delays: schema.list(schema.record({ ctrl: schema.time, perItemNs: schema.count })),
  },
  { tag: 73, name: "model-offered", from: "batcher", to: "batcher", repair: "sent again every 20 ms" },
);
export type ModelOffered = MessageOf<typeof ModelOffered>;

/** Value of `memoryBytesMax` for an executor without a declared capacity. */
export const MEMORY_UNBOUNDED = Number.MAX_SAFE_INTEGER;

/** Models that an executor has loaded and the memory that they take, for the placement of models. */
export const ExecutorInventory = packed(
  {
    executor: schema.actor,
    gpus: schema.list(schema.gpu),
    type: schema.text(),
    subCluster: schema.name,
    /**
     * Bytes of its models together, and the most that it may use, on each accelerator. MEMORY_UNBOUNDED: as much as
     * there is.
     */
    memoryBytes: schema.count,
    memoryBytesMax: schema.count,
    models: schema.list(
      schema.record({
        number: schema.count,
        version: schema.text(),
        memoryBytes: schema.count,
        /** Bytes that its largest run took besides; absent: not measured. */
        dynamicBytes: schema.optional(schema.count),
      }),
      MODELS_MAX,
    ),
  },
  {
    tag: 74,
    name: "executor-inventory",
    from: "executor",
    to: "planner, profiler",
    repair: "sent again every second, and at once when something changes",
  },
);
export type ExecutorInventory = MessageOf<typeof ExecutorInventory>;

/** Number of accelerators that the load needs: the planner's advice for its last window (docs/algorithms.md, A8). */
export const ScalingAdvised = packed(
  {
    at: schema.instant,
    /** Accelerators to add (positive) or to release (negative). */
    advice: schema.finite,
    /** Accelerators that serve or are about to. With `advice` added, it is the number that there ought to be. */
    gpus: schema.count,
    badRate: schema.finite,
    idleShare: schema.finite,
  },
  {
    tag: 75,
    name: "scaling-advised",
    from: "planner",
    to: "whoever listens on the subject of advice",
    repair: "sent again every second",
  },
);
export type ScalingAdvised = MessageOf<typeof ScalingAdvised>;

/** Names the parked models for which an ingress holds requests: the planner wakes them. */
export const ModelsWanted = packed(
  { numbers: schema.list(schema.model, MODELS_MAX) },
  {
    tag: 77,
    name: "models-wanted",
    from: "ingress",
    to: "planner",
    repair: "sent again every second while there are such requests; the planner also sees them in the figures",
  },
);
export type ModelsWanted = MessageOf<typeof ModelsWanted>;
