/**
 * Messages that bring the running times of isolated requests to the profiler (docs/algorithms.md, B9). The batcher
 * marks requests of batches that it dispatches. The executor runs them again by themselves, in idle time that the
 * ranker gives it, and sends their times to the profiler. Any of them may be lost: they inform averages.
 */
import type { ActorKey, BatchId, GpuId, Instant, Micros, ThreadId } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";

/** Most marked requests of one batch. */
export const MARKS_MAX = 16;
/** Most applications named or counted in one message. */
export const APPS_TOLD_MAX = 512;
/** Most running times in one message. */
export const ALONE_TOLD_MAX = 256;

/**
 * Asks for the isolated running times of these requests. It goes just before its BatchDispatched, in the same frame.
 */
export const SamplesWanted = packed<{
  readonly batchId: BatchId;
  readonly thread: ThreadId;
  /**
   * `some`: drawn as samples. `all` of the batch: as samples, and to learn the isolated time of its longest member.
   * `longest`: the one with most units, only for that time; as a sample it would make its application look longer than
   * it is.
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

/** An idle executor asks to use the accelerator for so long, to run marked rows again by themselves. */
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
 * Gives idle time: nothing is granted on this accelerator until `until`. The run must begin before `validUntil`. There
 * is no answer while candidates are due.
 */
export const IdleGiven = packed<{
  readonly gpu: GpuId;
  readonly epoch: number;
  readonly grantSeq: number;
  readonly validUntil: Instant;
  readonly until: Instant;
}>({ tag: 94, name: "idle-given", from: "ranker", to: "executor", repair: "the executor says anew when it is free" });
export type IdleGiven = MessageOf<typeof IdleGiven>;

/** Times of requests that ran by themselves. */
export const AloneMeasured = packed<{
  readonly thread: ThreadId;
  readonly samples: readonly { readonly app: number; readonly units: number; readonly alone: Micros }[];
  /** Batches whose longest member's isolated time (`alone`) is known. */
  readonly batches: readonly { readonly batchSize: number; readonly alone: Micros; readonly took: Micros }[];
  /** Requests that ran by themselves twice; they show how much a time varies for reasons other than the input. */
  readonly pairs?: readonly { readonly once: Micros; readonly again: Micros }[];
}>({ tag: 95, name: "alone-measured", from: "executor", to: "profiler", repair: "none needed: others are measured" });
export type AloneMeasured = MessageOf<typeof AloneMeasured>;

/** Requests that arrived since the last message, by application. */
export const AppsCounted = packed<{
  readonly thread: ThreadId;
  readonly apps: readonly { readonly app: number; readonly count: number }[];
}>({ tag: 96, name: "apps-counted", from: "batcher", to: "profiler", repair: "none needed: the next one" });
export type AppsCounted = MessageOf<typeof AppsCounted>;

/** Names of applications that sent requests lately: other messages hold only their hashes. */
export const AppsNamed = packed<{ readonly apps: readonly string[] }>({
  tag: 97,
  name: "apps-named",
  from: "ingress",
  to: "profiler",
  repair: "the next one that names it",
});
export type AppsNamed = MessageOf<typeof AppsNamed>;
