import { LatencyObserver, LatencyTable } from "@tutti/profile";
import { type ModelSpec, type ModelStatus, type ProfileMeasured, type ProfilePoints, TYPES_MAX } from "@tutti/protocol";
import { type Instant, type Micros, micros } from "@tutti/units";
import { batchSizesOf, pointsOf } from "../runtime/profile-plan.ts";

/** Largest share of the SLO that live runs may add to the seed's latency in plans. */
const INFLATION_SHARE_MAX = 0.2;

export interface LiveProfileOptions {
  readonly quantile: number;
  readonly window: Micros;
  /** A point that moved by less than this share is not published. */
  readonly newsShare: number;
}

type TypeProfiles = NonNullable<ModelStatus["byType"]>[number];

interface Observed {
  /** As they were measured or given. */
  readonly given: TypeProfiles;
  readonly seeds: readonly LatencyTable[];
  readonly observers: readonly LatencyObserver[];
}

/**
 * The profiles of one ready model, refined from live runs.
 *
 *   LP1. Each executor type has profiles of its own. What is published for plans is the pointwise slowest of the types
 *        that serve now, since any of them may get the batch (docs/algorithms.md, 0).
 */
export class LiveProfiles {
  readonly spec: ModelSpec;
  readonly #options: LiveProfileOptions;
  readonly #byType = new Map<string, Observed>();
  /** Samples of types that are being measured, by type and bucket. */
  readonly #measured = new Map<string, ProfileMeasured["samples"][]>();
  #published: ModelStatus;
  #hasLearned = false;

  constructor(spec: ModelSpec, status: ModelStatus, options: LiveProfileOptions) {
    this.spec = spec;
    this.#options = options;
    this.#published = status;
    // A given profile is the owner's, also after a restart of the profiler; a measured one is the last published.
    const { byType, executorTypes, profiles, means } = status;
    const given = { profiles: spec.profile ?? profiles, means };
    const types = executorTypes.length === 0 ? [""] : executorTypes;
    for (const one of byType ?? types.slice(0, TYPES_MAX).map((type) => ({ ...given, type }))) this.#observe(one);
  }

  /** Whether the latencies on a type are known. */
  knows(type: string): boolean {
    return this.#byType.has(type);
  }

  /** Takes the measurement of a bucket on a type; when all buckets are there, plans count it. */
  learn({ type, bucket, samples }: Pick<ProfileMeasured, "type" | "bucket" | "samples">): void {
    if (this.knows(type) || this.#byType.size >= TYPES_MAX) return;
    const measured = this.#measured.get(type) ?? [];
    if (bucket < this.#bucketCount) measured[bucket] = samples;
    this.#measured.set(type, measured);
    const all = Array.from({ length: this.#bucketCount }, (_, i) => measured[i]);
    if (all.some((one) => one === undefined || one.length === 0)) return;
    this.#measured.delete(type);
    this.#hasLearned = true;
    const { quantile } = this.#options;
    this.#observe({
      type,
      profiles: all.map((one) => pointsOf(one!, { quantile })),
      means: all.map((one) => pointsOf(one!, "mean")),
    });
  }

  /** @param run - with the executor's type; undefined: not heard yet */
  note(at: Instant, { type, bucket, batchSize, run }: TypedRun): void {
    const only = this.#byType.size === 1 ? this.#byType.values().next().value : undefined;
    const observed = type === undefined ? only : this.#byType.get(type);
    observed?.observers[bucket]?.note(at, batchSize, run);
  }

  /**
   * The status to publish if something moved enough to matter to a plan; undefined otherwise.
   *
   * @param serving - types of the executors that have the model; where none of them is known, all that are known count
   */
  news(at: Instant, serving: ReadonlySet<string>): ModelStatus | undefined {
    const known = [...this.#byType].filter(([type]) => serving.has(type)).map(([, observed]) => observed);
    const counted = known.length > 0 ? known : [...this.#byType.values()];
    const buckets = Array.from({ length: this.#bucketCount }, (_, bucket) => bucket);
    const profiles = buckets.map((bucket) => this.#planningPoints(counted, bucket, at));
    const hasMoved = profiles.some((points, bucket) => this.#moved(points, this.#published.profiles[bucket] ?? []));
    if (!this.#hasLearned && !hasMoved) return undefined;
    const means = buckets.map((bucket) =>
      this.#slowest(counted, bucket, ({ observers }) => observers[bucket]!.mean(at)),
    );
    this.#published = { ...this.#published, profiles, means, ...this.#types(counted) };
    this.#hasLearned = false;
    return this.#published;
  }

  get #bucketCount(): number {
    return Math.max(1, this.spec.buckets.length);
  }

  #observe(given: TypeProfiles): void {
    const { quantile, window } = this.#options;
    const { batchSizeMax } = this.spec;
    const seeds = given.profiles.map((points) => LatencyTable.fromPoints(points, { batchSizeMax }));
    const observers = seeds.map((seed) => new LatencyObserver({ seed, quantile, window }));
    this.#byType.set(given.type, { given, seeds, observers });
  }

  /** Types are told apart once one was measured by itself. */
  #types(counted: readonly Observed[]): Pick<ModelStatus, "executorTypes" | "byType"> {
    const { executorTypes, byType } = this.#published;
    if (byType === undefined && !this.#hasLearned) return { executorTypes };
    return {
      executorTypes: counted.map(({ given }) => given.type).sort(),
      byType: [...this.#byType.values()].map(({ given }) => given),
    };
  }

  /**
   * Latencies to plan with, bounded so that slow runs for a while don't make a servable model infeasible: requests
   * refused as infeasible would never be measured again.
   */
  #planningPoints(counted: readonly Observed[], bucket: number, at: Instant): ProfilePoints {
    const room = Math.round(INFLATION_SHARE_MAX * this.spec.slo);
    return this.#slowest(counted, bucket, ({ seeds, observers }) => {
      const table = observers[bucket]!.planning(at);
      const { batchSizeMax } = table;
      return { batchSizeMax, latency: (b) => Math.min(table.latency(b), seeds[bucket]!.latency(b) + room) };
    });
  }

  /** Points of the slowest type, at the sizes that a profile of this bucket has: nothing is known beyond. */
  #slowest(counted: readonly Observed[], bucket: number, latenciesOf: (one: Observed) => Latencies): ProfilePoints {
    const has = counted.filter(({ seeds }) => seeds[bucket] !== undefined).map(latenciesOf);
    const last = Math.min(...has.map(({ batchSizeMax }) => batchSizeMax));
    const sizes = batchSizesOf(this.spec.batchSizeMax).filter((size) => size <= last);
    return sizes.map((batchSize) => {
      return { batchSize, latency: micros(Math.max(...has.map((one) => one.latency(batchSize)))) };
    });
  }

  #moved(points: ProfilePoints, before: ProfilePoints): boolean {
    const known = new Map(before.map(({ batchSize, latency }) => [batchSize, latency]));
    return points.some(({ batchSize, latency }) => {
      const old = known.get(batchSize);
      return old === undefined || Math.abs(latency - old) > Math.max(20, old * this.#options.newsShare);
    });
  }
}

interface Latencies {
  readonly batchSizeMax: number;
  latency(batchSize: number): number;
}

export interface TypedRun {
  readonly type: string | undefined;
  readonly bucket: number;
  readonly batchSize: number;
  readonly run: Micros;
}
