/**
 * How running times of requests alone come to the profiler (docs/algorithms.md, B9): the batcher marks requests of
 * batches that it dispatches, the executor runs them again alone on idle time that the ranker gives it, and tells the
 * profiler what they took. All of it may be lost: it informs averages.
 */
import type { ActorKey, BatchId, GpuId, Instant, Micros, ThreadId } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";

/** Requests of one batch that are marked at most. */
export const MARKS_MAX = 16;
/** Applications named or counted in one message. */
export const APPS_TOLD_MAX = 512;
/** Running times in one message. */
export const ALONE_TOLD_MAX = 256;

/** Goes just before its BatchDispatched, in the same frame: of these requests the running time alone is wanted. */
export const SamplesWanted = packed<{
  readonly batchId: BatchId;
  readonly thread: ThreadId;
  /**
   * `some`: drawn, as samples. `all` of the batch: as samples, and to know what its longest member takes alone.
   * `longest`: the one of most units, only for that; as a sample it would make its application look longer than it is.
   */
  readonly what: "some" | "all" | "longest";
  readonly rows: readonly {
    readonly ingress: ActorKey;
    readonly seq: number;
    /** FNV-1a of the application's name. */
    readonly app: number;
    /** The request's size hint; 0: none. */
    readonly units: number;
  }[];
}>({ tag: 92, name: "samples-wanted", from: "batcher", to: "executor", repair: "none needed: others are sampled" });
export type SamplesWanted = MessageOf<typeof SamplesWanted>;

/**
 * "May this accelerator run something of its own for so long?" Asked by an executor that is idle and has rows to run
 * again alone.
 */
export const IdleAsked = packed<{
  readonly gpu: GpuId;
  readonly executor: ActorKey;
  readonly epoch: number;
  /** The newest grant that it has seen. */
  readonly grantSeq: number;
  readonly takes: Micros;
}>({ tag: 93, name: "idle-asked", from: "executor", to: "ranker", repair: "asked again" });
export type IdleAsked = MessageOf<typeof IdleAsked>;

/**
 * Nothing is granted on this accelerator until `until`; to be begun before `validUntil`. There is no answer where
 * candidates are due.
 */
export const IdleGiven = packed<{
  readonly gpu: GpuId;
  readonly epoch: number;
  readonly grantSeq: number;
  readonly validUntil: Instant;
  readonly until: Instant;
}>({ tag: 94, name: "idle-given", from: "ranker", to: "executor", repair: "the executor says anew when it is free" });
export type IdleGiven = MessageOf<typeof IdleGiven>;

/** What requests took that ran alone. */
export const AloneMeasured = packed<{
  readonly thread: ThreadId;
  readonly samples: readonly { readonly app: number; readonly units: number; readonly alone: Micros }[];
  /** Batches of whose longest member it is known what it takes alone. */
  readonly batches: readonly { readonly batchSize: number; readonly alone: Micros; readonly took: Micros }[];
  /** Of requests that ran alone twice: how much a time varies that is no matter of the input. */
  readonly pairs?: readonly { readonly once: Micros; readonly again: Micros }[];
}>({ tag: 95, name: "alone-measured", from: "executor", to: "profiler", repair: "none needed: others are measured" });
export type AloneMeasured = MessageOf<typeof AloneMeasured>;

/** Requests that arrived since the last message, by application. */
export const AppsCounted = packed<{
  readonly thread: ThreadId;
  readonly apps: readonly { readonly app: number; readonly count: number }[];
}>({ tag: 96, name: "apps-counted", from: "batcher", to: "profiler", repair: "none needed: the next one" });
export type AppsCounted = MessageOf<typeof AppsCounted>;

/** Applications that asked for something lately: elsewhere they are numbers. */
export const AppsNamed = packed<{ readonly apps: readonly string[] }>({
  tag: 97,
  name: "apps-named",
  from: "ingress",
  to: "profiler",
  repair: "the next one that names it",
});
export type AppsNamed = MessageOf<typeof AppsNamed>;
