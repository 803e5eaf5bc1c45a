/**
 * Messages that bring the running times of isolated requests to the profiler (docs/algorithms.md, B9). The batcher
 * marks requests of batches that it dispatches. The executor runs them again by themselves, in idle time that the
 * ranker gives it, and sends their times to the profiler. Any of them may be lost: they inform averages.
 */
import { type MessageOf, packed } from "../fields.ts";
import { schema } from "../schema.ts";

/** Most marked requests of one batch. */
export const MARKS_MAX = 16;
/** Most applications named or counted in one message. */
export const APPS_TOLD_MAX = 512;
/** Most running times in one message. */
export const ALONE_TOLD_MAX = 256;

/**
 * Asks for the isolated running times of these requests. It goes just before its BatchDispatched, in the same frame.
 */
export const SamplesWanted = packed(
  {
    batchId: schema.batch,
    thread: schema.thread,
    /**
     * `some`: drawn as samples. `all` of the batch: as samples, and to learn the isolated time of its longest member.
     * `longest`: the one with most units, only for that time; as a sample it would make its application look longer
     * than it is.
     */
    what: schema.oneOf(["some", "all", "longest"]),
    rows: schema.list(
      schema.record({
        ingress: schema.actor,
        seq: schema.count,
        app: schema.app,
        /** The request's size hint; 0: none. */
        units: schema.units,
      }),
      MARKS_MAX,
    ),
  },
  { tag: 92, name: "samples-wanted", from: "batcher", to: "executor", repair: "none needed: others are sampled" },
);
export type SamplesWanted = MessageOf<typeof SamplesWanted>;

/** An idle executor asks to use the accelerator for so long, to run marked rows again by themselves. */
export const IdleAsked = packed(
  {
    gpu: schema.gpu,
    executor: schema.actor,
    epoch: schema.count,
    /** The newest grant that it has seen. */
    grantSeq: schema.count,
    takes: schema.runTime,
  },
  { tag: 93, name: "idle-asked", from: "executor", to: "ranker", repair: "asked again" },
);
export type IdleAsked = MessageOf<typeof IdleAsked>;

/**
 * Gives idle time: nothing is granted on this accelerator until `until`. The run must begin before `validUntil`. There
 * is no answer while candidates are due.
 */
export const IdleGiven = packed(
  {
    gpu: schema.gpu,
    epoch: schema.count,
    grantSeq: schema.count,
    validUntil: schema.moment,
    until: schema.moment,
  },
  { tag: 94, name: "idle-given", from: "ranker", to: "executor", repair: "the executor says anew when it is free" },
);
export type IdleGiven = MessageOf<typeof IdleGiven>;

/** Times of requests that ran by themselves. */
export const AloneMeasured = packed(
  {
    thread: schema.thread,
    samples: schema.list(
      schema.record({ app: schema.app, units: schema.units, alone: schema.runTime }),
      ALONE_TOLD_MAX,
    ),
    /** Batches whose longest member's isolated time (`alone`) is known. */
    batches: schema.list(
      schema.record({ batchSize: schema.batchSize, alone: schema.runTime, took: schema.runTime }),
      ALONE_TOLD_MAX,
    ),
    /** Requests that ran by themselves twice; they show how much a time varies for reasons other than the input. */
    pairs: schema.optional(schema.list(schema.record({ once: schema.runTime, again: schema.runTime }), ALONE_TOLD_MAX)),
  },
  { tag: 95, name: "alone-measured", from: "executor", to: "profiler", repair: "none needed: others are measured" },
);
export type AloneMeasured = MessageOf<typeof AloneMeasured>;

/** Requests that arrived since the last message, by application. */
export const AppsCounted = packed(
  {
    thread: schema.thread,
    apps: schema.list(schema.record({ app: schema.app, count: schema.whole(1, 1e9) }), APPS_TOLD_MAX),
  },
  { tag: 96, name: "apps-counted", from: "batcher", to: "profiler", repair: "none needed: the next one" },
);
export type AppsCounted = MessageOf<typeof AppsCounted>;

/** Names of applications that sent requests lately: other messages hold only their hashes. */
export const AppsNamed = packed(
  { apps: schema.list(schema.name, APPS_TOLD_MAX) },
  {
    tag: 97,
    name: "apps-named",
    from: "ingress",
    to: "profiler",
    repair: "the next one that names it",
  },
);
export type AppsNamed = MessageOf<typeof AppsNamed>;
