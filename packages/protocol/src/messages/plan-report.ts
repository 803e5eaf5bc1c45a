/**
 * The planner's observations and the reasons for its plan, for people. It is one value in the bucket of plans, beside
 * the placement.
 */
import { GPUS_MAX } from "@tutti/units";
import { NAME_LENGTH_MAX } from "../limits.ts";
import { type Schema, type Static, schema } from "../schema.ts";
import { stored } from "../stored/stored.ts";

/** Key in the bucket of plans. */
export const REPORT_KEY = "report";
/** Most entries in each list of a report; the rest is left out. */
export const REPORTED_MAX = 2_048;

const text = schema.text(1_024);
const amount = schema.between(0, Number.MAX_VALUE);
const reported = <T>(item: Schema<T>): Schema<readonly T[]> => schema.list(item, REPORTED_MAX);

const ReportedSubCluster = schema.record({
  subCluster: schema.name,
  /** Requests per second (`rate`), and the number of accelerators that they keep busy (`work`). */
  rate: amount,
  work: amount,
  memoryBytes: amount,
  gpus: schema.whole(0, GPUS_MAX),
  gpusIdeal: amount,
  /**
   * Rate that it is expected to carry of the mix that it serves (docs/algorithms.md, D9), and the model that waits for
   * too long beyond it. Absent: nothing is asked for; or work is the limit.
   */
  carriedRps: schema.optional(amount),
  waits: schema.optional(schema.text(NAME_LENGTH_MAX)),
  /** Bytes that the largest run of its models takes besides, and the memory of its smallest accelerator if bounded. */
  dynamicBytes: schema.optional(amount),
  memoryBytesMax: schema.optional(amount),
  /** Share of its time for which its ranker is busy, and the rate that it may have: what it carries and decides for. */
  busy: schema.optional(amount),
  rateMax: schema.optional(amount),
  /** Bounds that it is close to. */
  binds: schema.optional(schema.list(schema.oneOf(["memory", "rate"]), 2)),
});
export type ReportedSubCluster = Static<typeof ReportedSubCluster>;

const ReportedDivision = schema.record({
  /** Sub-clusters that have a leader, that are used, and that rankers and memory need. */
  asked: schema.count,
  used: schema.count,
  needed: schema.count,
  because: schema.oneOf(["demanded", "rankers", "memory", "cheap", "costly", "unknown"]),
  /** Rates that all accelerators are expected to carry in as many as are asked for, and in one. */
  dividedRps: schema.optional(amount),
  undividedRps: schema.optional(amount),
});

const ReportedModel = schema.record({
  number: schema.model,
  name: schema.text(NAME_LENGTH_MAX),
  rate: amount,
  work: amount,
  memoryBytes: amount,
  /** Bytes that its runs take besides its weights. */
  dynamicBytes: schema.optional(amount),
  /**
   * Variance over mean of its requests in a second, 1 until three seconds are known: 1 is also that of Poisson
   * arrivals.
   */
  dispersion: schema.optional(amount),
});
export type ReportedModel = Static<typeof ReportedModel>;

const ReportedExecutor = schema.record({
  gpus: schema.list(schema.gpu, GPUS_MAX),
  /** Sub-cluster whose leader the executor follows now. */
  subCluster: schema.name,
  memoryBytes: amount,
  /** Memory limit, bytes; absent: unbounded. */
  memoryBytesMax: schema.optional(amount),
  models: amount,
});
export type ReportedExecutor = Static<typeof ReportedExecutor>;

/** Validates everything that readers rely on (T8). */
export const isPlanReport = stored(
  "report of a planner",
  1,
  schema.record({
    at: schema.moment,
    /** Epoch of the placement that the report is about. */
    epoch: schema.count,
    subClusters: reported(ReportedSubCluster),
    /** The number of sub-clusters that are used, where several have a leader. */
    division: schema.optional(ReportedDivision),
    /** Rate that all accelerators would carry as one sub-cluster; absent: they are one. */
    undividedRps: schema.optional(amount),
    models: reported(ReportedModel),
    executors: reported(ReportedExecutor),
    /** Moves that would balance loads better, and wait for room. */
    waiting: reported(schema.record({ number: schema.model, to: schema.name })),
    leftOut: reported(schema.record({ number: schema.model, text })),
    /** Reasons for changes, the newest last. */
    reasons: reported(schema.record({ at: schema.moment, about: text, text })),
    advice: schema.record({ gpus: amount, advice: schema.finite, badRate: amount, idleShare: amount }),
  }),
);
export type PlanReport = Static<typeof isPlanReport>;
