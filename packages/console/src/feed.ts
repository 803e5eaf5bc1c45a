/**
 * The contract between the gateway and the page: events that the page receives and requests that it may make. Types
 * only, so that both read the same; times in ms since the Unix epoch.
 *
 *   GET  /console/feed      server-sent events, one for each name of FeedEvents
 *   POST /console/restart   { actor }, with the token: restarts it and answers when that is done
 *   GET  /console/traces    the last ones: FeedTrace[]; /console/traces/<id>: TraceAnswer
 *   POST /console/replay    ReplayWish: replays the last minutes with other accelerators or another policy
 */

/** Payloads by the name of the event. */
export interface FeedEvents {
  /** Sent once, first. */
  readonly hello: FeedHello;
  /** Sent once, second: the times of the points until now. A page adds those of `state`. */
  readonly history: FeedHistory;
  /** Sent once for each model, right behind: its points at those times. All of them in one event would be megabytes. */
  readonly historyModel: FeedHistory["models"][number];
  /** The whole state, whenever a part of it changed; at most four times a second. */
  readonly state: FeedState;
  /** Batches that ended. */
  readonly batches: FeedBatches;
  /** Refusals that were not sent before; the first event has the latest known ones. */
  readonly refusals: readonly FeedRefusal[];
  readonly plan: FeedPlan;
  /** Progress of operations started from this console. */
  readonly operation: FeedOperation;
}

export interface FeedHello {
  readonly cluster: string;
  /** Policies that a replay accepts. */
  readonly policies: readonly string[];
  /** Restarts from here need the gateway's token, or an administrator's key; or there are none. */
  readonly restart: "token" | "key" | "closed";
  /** Whether traces can be asked for. */
  readonly traces: boolean;
}

/** Columns have a place for each point; null where a value was not known. */
export interface FeedHistory {
  /** Seconds since the epoch, ascending. */
  readonly at: readonly number[];
  readonly models: readonly {
    readonly name: string;
    readonly good: readonly (number | null)[];
    /** Share of the good among the decided, 0 … 1. */
    readonly goodShare: readonly (number | null)[];
    readonly queue: readonly (number | null)[];
    readonly batch: readonly (number | null)[];
    readonly target: readonly (number | null)[];
    readonly p99: readonly (number | null)[];
    /** The SLO of now, in ms. */
    readonly slo: number;
  }[];
}

export interface FeedState {
  readonly at: number;
  /** Problems that keep the cluster from answering; empty when there are none. */
  readonly missing: readonly string[];
  readonly models: readonly FeedModel[];
  /** Number of models beyond those that are sent. */
  readonly modelsLeft: number;
  readonly gpus: readonly FeedGpu[];
  readonly gpusLeft: number;
  readonly actors: readonly FeedActor[];
  readonly actorsLeft: number;
  /** Models with jobs or dead letters; empty where there are none. */
  readonly jobs: readonly FeedJobs[];
  readonly jobsLeft: number;
  readonly record: FeedRecord;
}

/** Background jobs of one model, loaded or not. */
export interface FeedJobs {
  readonly model: string;
  /** In the durable queue, those in flight included. */
  readonly queued: number;
  /** Done a second, lately. */
  readonly rate: number;
  /** Seconds until the queue is empty at this rate; null: nothing moves. */
  readonly endsInS: number | null;
  /** Dead letters by the code of their last failure. */
  readonly dead: Readonly<Record<string, number>>;
}

export interface FeedModel {
  readonly name: string;
  /** Its number: batches name it. */
  readonly number: number;
  readonly state: string;
  readonly reason: string;
  /** Per second, over the last `WINDOW_S` seconds; null until it is known. */
  readonly offered: number | null;
  readonly good: number | null;
  readonly late: number | null;
  readonly refused: Readonly<Record<string, number>>;
  readonly queue: number;
  /** Over the same seconds. */
  readonly batchMean: number | null;
  /** The target batch size at the current rate. */
  readonly target: number | null;
  /** Latency of the answers of the same seconds, at the ingress where it is highest. */
  readonly p99Ms: number | null;
  readonly sloMs: number;
}

export interface FeedGpu {
  readonly gpu: number;
  readonly type: string;
  readonly host: string;
  readonly subCluster: string;
  readonly serving: boolean;
  /** Share of the time: 0 … 1. */
  readonly busy: number | null;
}

export interface FeedActor {
  readonly actor: string;
  readonly role: string;
  readonly host: string;
  readonly pid: number;
  /** Name that its supervisor gives it; "": no known supervisor. */
  readonly process: string;
  readonly startedAt: number;
  readonly epoch: number | null;
  readonly duty: string;
  readonly subCluster: string | null;
  readonly restarts: number | null;
  readonly queue: number;
  readonly health: readonly string[];
}

/** The arrivals that a replay would run. */
export interface FeedRecord {
  readonly arrivals: number;
  readonly seconds: number;
  /** Arrivals that could not be kept. */
  readonly left: number;
}

export interface FeedBatches {
  readonly at: number;
  /** Batches left out, because there were too many. */
  readonly left: number;
  /** Eight for each batch: model, gpu, size, failed; then µs before `at`: first arrival, grant, start, end. */
  readonly rows: readonly number[];
}

export interface FeedRefusal {
  readonly at: number;
  readonly model: string;
  readonly code: string;
  readonly text: string;
  /** The application, the request's name for `tutti refusals --request`, and its trace; "": unknown. */
  readonly app: string;
  readonly id: string;
  readonly trace: string;
}

export interface FeedPlan {
  readonly epoch: number;
  readonly madeAt: number | null;
  readonly seenAt: number | null;
  readonly models: readonly {
    readonly model: string;
    readonly subCluster: string;
    readonly rate: number | null;
    readonly work: number | null;
    readonly memoryBytes: number | null;
    /** Its next place, and whether the move has begun. */
    readonly next: string | null;
    readonly state: "moving" | "waiting" | null;
  }[];
  readonly accelerators: readonly { readonly gpu: number; readonly from: string; readonly to: string }[];
  readonly leftOut: readonly { readonly model: string; readonly text: string }[];
  readonly advice: {
    readonly gpus: number;
    readonly advice: number;
    readonly badRate: number;
    readonly idleShare: number;
  } | null;
  /** The newest first. */
  readonly reasons: readonly { readonly at: number; readonly about: string; readonly text: string }[];
}

export interface FeedOperation {
  readonly at: number;
  readonly what: string;
  readonly text: string;
  /** Undefined while it is in progress. */
  readonly end?: "done" | "failed";
}

export interface ReplayWish {
  readonly minutes: number;
  readonly gpus: number;
  readonly policy: string;
}

export interface ReplayAnswer {
  readonly gpus: number;
  readonly policy: string;
  readonly seconds: number;
  readonly arrivals: number;
  readonly goodRps: number;
  readonly offeredRps: number;
  readonly badRate: number;
  readonly busyFraction: number;
  readonly used: number;
  readonly batchMean: number;
  readonly queueP99Ms: number;
  readonly models: readonly {
    readonly name: string;
    readonly offeredRps: number;
    readonly badRate: number;
    readonly batchMean: number;
    /** Over all requests, refused ones included; null: more than one in a hundred got no answer. */
    readonly p99Ms: number | null;
    /** The shortest and the longest SLO of the requests, by which they are in time: many bring their own. */
    readonly sloLeastMs: number;
    readonly sloMostMs: number;
  }[];
  /** As FeedBatches.rows, but `model` is a place in `models`, and times are µs from the beginning. */
  readonly rows: readonly number[];
  /** Batches that are left out. */
  readonly left: number;
  /** Models of the record that could not be run, with the reason. */
  readonly without: readonly { readonly model: string; readonly text: string }[];
}

/** A trace as a list shows it. */
export interface FeedTrace {
  readonly id: string;
  readonly at: number;
  readonly ms: number;
  readonly name: string;
  /** `ok`, `late`, the code of a refusal, or "" where no span has it. */
  readonly outcome: string;
  readonly spans: number;
}

export interface TraceAnswer {
  readonly id: string;
  readonly at: number;
  readonly us: number;
  /** In the order of their beginnings. */
  readonly spans: readonly TraceSpan[];
}

export type TraceNote = readonly [name: string, value: string];

/** Times in µs from the trace's beginning. */
export interface TraceSpan {
  readonly id: string;
  readonly parent: string | null;
  readonly name: string;
  readonly service: string;
  readonly at: number;
  readonly us: number;
  readonly notes: readonly TraceNote[];
  readonly events: readonly { readonly at: number; readonly notes: readonly TraceNote[] }[];
  /** Linked traces: of the batch that it ran in, or of the batch's requests. */
  readonly links: readonly string[];
}

/** Rates, shares and latencies of one row are all those of so many seconds. */
export const WINDOW_S = 10;
/** Numbers of one batch in `rows`. */
export const BATCH_ROW_WIDTH = 8;
export const REPLAY_MINUTES_MAX = 10;
export const REPLAY_GPUS_MAX = 1_024;
