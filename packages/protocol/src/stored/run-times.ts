import { BUCKETS_MAX } from "@tutti/units";
import { BATCH_SIZE_MAX, NAME_LENGTH_MAX, SIZE_HINT_MAX, SLO_US_MAX } from "../limits.ts";
import { type Static, schema } from "../schema.ts";
import { stored } from "./stored.ts";

/** Most applications with a profile of their own; all others are in the pool. */
export const APPS_PROFILED_MAX = 32;
/** Most classes of size hints by which one application's running times are told apart. */
export const UNIT_CLASSES_MAX = 8;
/** Most batch sizes, over all buckets and executor types of a model, of which recent runs are told. */
export const LEARNED_SIZES_MAX = 512;

const EDGES_MAX = 65;
const TIME_US_MAX = 10 * SLO_US_MAX;

const time = schema.between(0, TIME_US_MAX);
const samples = schema.whole(0, 2 ** 31);
const histogram = {
  samples,
  /** n + 1 edges of n bins, rising, in µs; not whole numbers. */
  edges: schema.list(time, EDGES_MAX),
  masses: schema.list(schema.between(0, 1 + 1e-6), EDGES_MAX - 1),
};
/** Distribution of the times that requests take alone: masses in bins (docs/algorithms.md, B1). */
export interface RunTimes {
  readonly samples: number;
  readonly edges: readonly number[];
  readonly masses: readonly number[];
}
const rises = (values: readonly number[]): boolean => values.every((value, i) => i === 0 || value > values[i - 1]!);

/** Edges rise strictly, and masses sum to one: otherwise `histogram` would throw, and stop its actor. */
const isHistogram = ({ edges, masses }: RunTimes): boolean =>
  masses.length > 0 &&
  edges.length === masses.length + 1 &&
  Math.abs(masses.reduce((total, mass) => total + mass, 0) - 1) < 1e-6 &&
  rises(edges);

const UnitClass = schema.also(schema.record({ ...histogram, upTo: schema.between(0, SIZE_HINT_MAX) }), isHistogram);

const AppRunTimes = schema.also(
  schema.record({
    ...histogram,
    app: schema.app,
    /** Name of the application; "" while unknown. */
    name: schema.text(NAME_LENGTH_MAX),
    /** Fraction of all applications' arrivals in this bucket, 0 … 1. */
    share: schema.between(0, 1),
    /** Statistics of the samples themselves, in µs; the bins have rounded the samples. */
    mean: time,
    p50: time,
    p99: time,
    /**
     * Times by size hint, in classes of equal mass. A class has the units above the last one's `upTo` and up to its
     * own; larger ones belong to the last class.
     */
    byUnits: schema.optional(
      schema.also(
        schema.list(UnitClass, UNIT_CLASSES_MAX),
        (classes) => classes.length > 0 && rises(classes.map(({ upTo }) => upTo)),
      ),
    ),
  }),
  isHistogram,
);
export type AppRunTimes = Static<typeof AppRunTimes>;

/** Duration of a batch as a function of its longest member's time alone: fixed + slope · alone, in µs (B3). */
const BatchCostPoint = schema.record({
  batchSize: schema.batchSize,
  fixed: time,
  slope: schema.between(Number.MIN_VALUE, BATCH_SIZE_MAX * 1_000),
});
export type BatchCostPoint = Static<typeof BatchCostPoint>;

const BucketRunTimes = schema.record({
  /**
   * Kind of scheduling. `static`: times alone hardly vary, so the latency table suffices and nothing is run again.
   * `dynamic`: requests are scheduled by these distributions. `unknown`: not enough is known; treated as static.
   */
  kind: schema.oneOf(["unknown", "static", "dynamic"]),
  /** Applications, those with most arrivals first. */
  apps: schema.distinct(AppRunTimes, APPS_PROFILED_MAX, ({ app }) => app),
  /** All applications together, used for those without a profile of their own. Absent without a sample. */
  pool: schema.optional(AppRunTimes),
  /** Costs by batch size, ascending. */
  costs: schema.also(schema.list(BatchCostPoint, BATCH_SIZE_MAX), (costs) =>
    rises(costs.map(({ batchSize }) => batchSize)),
  ),
  /** Number of batches from which the costs are fitted; 0: they come from the latency table. */
  costSamples: samples,
});
export type BucketRunTimes = Static<typeof BucketRunTimes>;

/** Latency of one batch size on one type of executors, in µs. */
const LearnedSize = schema.record({
  bucket: schema.bucket,
  type: schema.text(),
  batchSize: schema.batchSize,
  /** As given with the model or measured at its load. */
  given: time,
  /** As plans have it. */
  learned: time,
  /** Recent runs and their quantiles; absent: there were too few. */
  spread: schema.optional(schema.record({ runs: samples, p10: time, p50: time, p90: time })),
});
export type LearnedSize = Static<typeof LearnedSize>;

/** The profile as live runs have it. It is for people: `ModelStatus` has what actors plan with. */
const LearnedProfile = schema.record({
  /** End of the time in which the recent runs were. */
  at: schema.moment,
  sizes: schema.list(LearnedSize, LEARNED_SIZES_MAX),
});
export type LearnedProfile = Static<typeof LearnedProfile>;

/**
 * The running times of one model by bucket: the value of `runTimesKeys.model(number)` in the bucket of profiles.
 * Validates everything that readers rely on (T8).
 */
export const isModelRunTimes = stored(
  "running times",
  1,
  schema.record({
    name: schema.text(NAME_LENGTH_MAX),
    number: schema.model,
    version: schema.text(),
    buckets: schema.list(BucketRunTimes, BUCKETS_MAX),
    /** Absent until batches have run. */
    learned: schema.optional(LearnedProfile),
  }),
);
export type ModelRunTimes = Static<typeof isModelRunTimes>;

export const runTimesKeys = {
  prefix: "times.",
  model: (modelNumber: number): string => `times.${modelNumber}`,
} as const;
