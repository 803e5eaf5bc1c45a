import { servingTypes } from "@tutti/planning/live";
import { LatencyObserver, LatencyTable, type Spread } from "@tutti/profile";
import {
  LEARNED_SIZES_MAX,
  type LearnedSize,
  type ModelSpec,
  type ModelStatus,
  type ProfileMeasured,
  type ProfilePoints,
  SLO_US_MAX,
  TYPES_MAX,
  isPartType,
} from "@tutti/protocol";
import { type Instant, type Micros, micros } from "@tutti/units";
import { batchSizesOf, offeredType, pointsOf } from "../runtime/profile-plan.ts";

/**
 * Largest share of the time that a request has for its run which live runs may make of l(1): a model whose every
 * request is refused as infeasible has no more runs, and would stay so.
 */
const ALONE_SHARE_MAX = 0.8;

/** A point that moved by less than this share, or this time in µs, is not published. */
const NEWS_SHARE = 0.01;
const NEWS_US = 20;

/** Longest run that is believed, µs; a longer one could not be published. */
const RUN_LONGEST = SLO_US_MAX;

export interface LiveProfileOptions {
  /** Least time that a request needs besides its run. */
  readonly overhead: Micros;
  /** After which time without runs the seed counts again. */
  readonly window: Micros;
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
 *        that serve it now, since any of them may get the batch; types that can't meet its SLO get none of its batches
 *        (docs/algorithms.md, 0). Beside it stands what each of them takes now (`live`), for the batch that one is
 *        granted; what it was measured with stays, to bound that after a restart too.
 *   LP2. While none of the known types serves, nothing changes: executors that are away come back. Nor does a type that
 *        serves go until every executor has told its type: a profiler that has just started, and has heard fast ones
 *        alone, would have slow ones take batches that are planned for fast ones.
 *   LP3. A type is measured once; one that can't be measured is not asked again until the model's next version.
 */
export class LiveProfiles {
  readonly spec: ModelSpec;
  readonly #options: LiveProfileOptions;
  readonly #byType = new Map<string, Observed>();
  /** Samples of types that are being measured, by type and bucket. */
  readonly #measured = new Map<string, ProfileMeasured["samples"][]>();
  /** Types on which a measurement failed (LP3). */
  readonly #failed = new Set<string>();
  #published: ModelStatus;
  #hasLearned = false;

  constructor(spec: ModelSpec, status: ModelStatus, options: LiveProfileOptions) {
    this.spec = spec;
    this.#options = options;
    this.#published = status;
    // A given profile is the owner's, also after a restart of the profiler; a measured one is the last published.
    const { byType, executorTypes, profiles, means } = status;
    const given = { profiles: spec.profile ?? profiles, means };
    // Given latencies are those of whole accelerators.
    const types = spec.profile === undefined ? executorTypes : executorTypes.filter((type) => !isPartType(type));
    for (const one of byType ?? types.slice(0, TYPES_MAX).map((type) => ({ ...given, type }))) this.#observe(one);
    if (this.#byType.size === 0) this.#observe({ ...given, type: "" });
  }

  /** Whether a bucket on a type is still to be measured. */
  wants(type: string, bucket: number): boolean {
    if (this.#byType.has(type) || this.#failed.has(type)) return false;
    return this.#byType.size + this.#measured.size < TYPES_MAX && this.#measured.get(type)?.[bucket] === undefined;
  }

  /**
   * Takes the measurement of a bucket on a type; when all buckets are there, plans count it.
   *
   * @returns whether they do now
   */
  learn({ type, bucket, samples, failure }: Measured): boolean {
    if (!this.wants(type, bucket) || bucket >= this.#bucketCount) return false;
    if (failure !== "" || !this.#isWhole(samples)) {
      this.#measured.delete(type);
      if (this.#failed.size < TYPES_MAX) this.#failed.add(type);
      return false;
    }
    const measured = this.#measured.get(type) ?? [];
    measured[bucket] = samples;
    this.#measured.set(type, measured);
    const all = Array.from({ length: this.#bucketCount }, (_, i) => measured[i]);
    if (all.some((one) => one === undefined)) return false;
    this.#measured.delete(type);
    this.#hasLearned = true;
    this.#observe({
      type,
      profiles: all.map((one) => pointsOf(one!, "median")),
      means: all.map((one) => pointsOf(one!, "mean")),
    });
    return true;
  }

  /** Whether every size was measured, by runs that can be believed. */
  #isWhole(samples: ProfileMeasured["samples"]): boolean {
    const sizes = new Map(samples.map(({ batchSize, runs }) => [batchSize, runs]));
    return batchSizesOf(this.spec.batchSizeMax).every((size) => {
      const runs = sizes.get(size) ?? [];
      return runs.length > 0 && runs.every((run) => run > 0 && run <= RUN_LONGEST);
    });
  }

  /** @param run - with the executor's type; of a type that isn't known it counts for the first one */
  note(at: Instant, { type, bucket, batchSize, run }: TypedRun): void {
    const observed = (type === undefined ? undefined : this.#byType.get(type)) ?? this.#byType.values().next().value;
    observed?.observers[bucket]?.note(at, batchSize, run);
  }

  /**
   * The status to publish if something moved enough to matter to a plan; undefined otherwise.
   *
   * @param serving - types of the executors that have the model, and the numbers of their accelerators
   * @param knowsAll - whether every living executor has told its type
   */
  news(at: Instant, serving: ReadonlyMap<string, number>, knowsAll = true): ModelStatus | undefined {
    const known = [...this.#byType].filter(([type]) => serving.has(type)).map(([, observed]) => observed);
    if (known.length === 0 && this.#byType.size > 1) return undefined; // LP2
    const fit = servingTypes(
      known.map(({ given: { type, profiles } }) =>
        offeredType(this.spec, profiles, serving.get(type)!, this.#options.overhead),
      ),
    );
    const counted = known.length > 0 ? known.filter((_, i) => fit[i]) : [...this.#byType.values()];
    const buckets = Array.from({ length: this.#bucketCount }, (_, bucket) => bucket);
    const planned = new Map(counted.map((one) => [one, planningOf(one, at, this.#aloneMax)]));
    const profiles = buckets.map((bucket) => this.#slowest(counted, bucket, (one) => planned.get(one)![bucket]!));
    const types = this.#types(planned, serving);
    const { executorTypes } = this.#published;
    if (!knowsAll && executorTypes.some((type) => !types.executorTypes.includes(type))) return undefined; // LP2
    const hasMoved =
      profiles.some((points, bucket) => this.#moved(points, this.#published.profiles[bucket] ?? [])) ||
      counted.some((one) => this.#hasMovedOn(one, planned.get(one)!));
    const isOther =
      String(types.executorTypes) !== String(this.#published.executorTypes) ||
      String(unfitIn(types)) !== String(unfitIn(this.#published));
    if (!this.#hasLearned && !hasMoved && !isOther) return undefined;
    this.#published = { ...this.#published, profiles, means: profiles, ...types };
    this.#hasLearned = false;
    return this.#published;
  }

  /**
   * Latencies for people, those that plans use beside those that were given, at the sizes that are measured at load and
   * at those that ran lately. Empty: nothing has run lately, and plans use what was given.
   */
  learned(at: Instant): LearnedSize[] {
    const sizes = [...this.#byType.values()].flatMap((one) =>
      one.observers.flatMap((observer, bucket) => this.#learnedOf(one, bucket, observer.spread(at))),
    );
    const telling = sizes.filter(({ spread, given, learned }) => spread !== undefined || given !== learned);
    return telling.length === 0 || sizes.length > LEARNED_SIZES_MAX ? telling.slice(0, LEARNED_SIZES_MAX) : sizes;
  }
  #learnedOf({ given: { type }, seeds }: Observed, bucket: number, spreads: readonly Spread[]): LearnedSize[] {
    const { byType, profiles } = this.#published;
    const own = byType?.find((one) => one.type === type);
    const points = (own?.live ?? own?.profiles ?? profiles)[bucket] ?? [];
    if (points.length === 0) return [];
    const [seed, planned] = [seeds[bucket]!, LatencyTable.fromPoints(points)];
    const bySize = new Map(spreads.map(({ batchSize, ...spread }) => [batchSize, spread]));
    const largest = Math.min(seed.batchSizeMax, planned.batchSizeMax);
    return [...new Set([...batchSizesOf(this.spec.batchSizeMax), ...bySize.keys()])]
      .filter((batchSize) => batchSize <= largest)
      .sort((a, b) => a - b)
      .map((batchSize) => ({
        ...{ bucket, type, batchSize, given: seed.latency(batchSize), learned: planned.latency(batchSize) },
        ...(bySize.has(batchSize) && { spread: bySize.get(batchSize)! }),
      }));
  }

  get #bucketCount(): number {
    return Math.max(1, this.spec.buckets.length);
  }

  #observe(given: TypeProfiles): void {
    const { window } = this.#options;
    const { batchSizeMax } = this.spec;
    const seeds = given.profiles.map((points) => LatencyTable.fromPoints(points, { batchSizeMax }));
    const observers = seeds.map((seed) => new LatencyObserver({ seed, window }));
    this.#byType.set(given.type, { given, seeds, observers });
  }

  /** Types are told apart once one was measured by itself. */
  #types(
    planned: ReadonlyMap<Observed, readonly Latencies[]>,
    serving: ReadonlyMap<string, number>,
  ): Pick<ModelStatus, "executorTypes" | "byType"> {
    const { executorTypes, byType } = this.#published;
    if (byType === undefined && !this.#hasLearned) return { executorTypes };
    return {
      executorTypes: [...planned.keys()].map(({ given }) => given.type).sort(),
      byType: [...this.#byType.values()].map((one) => {
        const { type, profiles, means } = one.given;
        const live = pointsOn(one, planned.get(one) ?? one.seeds);
        const seeds = pointsOn(one, one.seeds).flat();
        return {
          ...{ type, profiles, means, ...(this.#isUnfit(one, planned, serving) && { unfit: true }) },
          ...(live.flat().some(({ latency }, i) => latency !== seeds[i]!.latency) && { live }),
        };
      }),
    };
  }

  /**
   * A type that isn't there is unfit only if it can't meet the SLO: it may come back before this is looked at again.
   */
  #isUnfit(one: Observed, counted: ReadonlyMap<Observed, unknown>, serving: ReadonlyMap<string, number>): boolean {
    const { type, profiles } = one.given;
    if (serving.has(type)) return !counted.has(one);
    return offeredType(this.spec, profiles, 1, this.#options.overhead).tightness > 1;
  }

  get #aloneMax(): number {
    return ALONE_SHARE_MAX * Math.max(0, this.spec.slo - this.#options.overhead);
  }

  /** Whether a type that is told apart takes other times now than was published of it. */
  #hasMovedOn(one: Observed, planned: readonly Latencies[]): boolean {
    const { byType } = this.#published;
    if (byType === undefined) return false;
    const before = byType.find(({ type }) => type === one.given.type)?.live ?? pointsOn(one, one.seeds);
    return pointsOn(one, planned).some((points, bucket) => this.#moved(points, before[bucket] ?? []));
  }

  /** Points of the slowest type, at the sizes that a profile of this bucket has: nothing is known beyond. */
  #slowest(counted: readonly Observed[], bucket: number, latenciesOf: (one: Observed) => Latencies): ProfilePoints {
    const has = counted.filter(({ seeds }) => seeds[bucket] !== undefined).map(latenciesOf);
    const last = Math.min(...has.map(({ batchSizeMax }) => batchSizeMax));
    const measured = new Set(counted.flatMap(({ given }) => given.profiles[bucket] ?? []).map((one) => one.batchSize));
    const sizes = [...measured].filter((size) => size <= last).sort((a, b) => a - b);
    return sizes.map((batchSize) => {
      return { batchSize, latency: micros(Math.max(...has.map((one) => one.latency(batchSize)))) };
    });
  }

  #moved(points: ProfilePoints, before: ProfilePoints): boolean {
    const known = new Map(before.map(({ batchSize, latency }) => [batchSize, latency]));
    return points.some(({ batchSize, latency }) => {
      const old = known.get(batchSize);
      return old === undefined || Math.abs(latency - old) > Math.max(NEWS_US, NEWS_SHARE * old);
    });
  }
}

interface Latencies {
  readonly batchSizeMax: number;
  latency(batchSize: number): number;
}

/**
 * Latencies to plan with by bucket. Where live runs make l(1) longer than `aloneMax`, and the seed doesn't, all sizes
 * are as much shorter.
 */
function planningOf({ seeds, observers }: Observed, at: Instant, aloneMax: number): Latencies[] {
  return observers.map((observer, bucket) => {
    const table = observer.planning(at);
    const alone = table.latency(1);
    const most = Math.max(aloneMax, seeds[bucket]!.latency(1));
    return alone <= most ? table : { ...table, latency: (b) => Math.ceil((table.latency(b) * most) / alone) };
  });
}

/** Points by bucket at the sizes that a type was measured at, none beyond the model's largest batch. */
function pointsOn({ given }: Observed, byBucket: readonly Latencies[]): ProfilePoints[] {
  return byBucket.map((latencies, bucket) => {
    const sizes = given.profiles[bucket]!.map(({ batchSize }) => Math.min(batchSize, latencies.batchSizeMax));
    return [...new Set(sizes)].map((batchSize) => ({ batchSize, latency: micros(latencies.latency(batchSize)) }));
  });
}

type Measured = Pick<ProfileMeasured, "type" | "bucket" | "samples" | "failure">;

export interface TypedRun {
  readonly type: string | undefined;
  readonly bucket: number;
  readonly batchSize: number;
  readonly run: Micros;
}

const unfitIn = ({ byType = [] }: Pick<ModelStatus, "byType">): string[] =>
  byType.filter((one) => one.unfit === true).map(({ type }) => type);
