import { LatencyObserver, LatencyTable } from "@tutti/profile";
import type { ModelSpec, ModelStatus, ProfilePoints } from "@tutti/protocol";
import { type Instant, type Micros, micros } from "@tutti/units";
import { batchSizesOf } from "../runtime/profile-plan.ts";

/** Largest share of the SLO that live runs may add to the seed's latency in plans. */
const INFLATION_SHARE_MAX = 0.2;

export interface LiveProfileOptions {
  readonly quantile: number;
  readonly window: Micros;
  /** A point that moved by less than this share is not published. */
  readonly newsShare: number;
}

/** The profiles of one ready model, refined from live runs. */
export class LiveProfiles {
  readonly spec: ModelSpec;
  readonly #options: LiveProfileOptions;
  readonly #seeds: readonly LatencyTable[];
  readonly #observers: readonly LatencyObserver[];
  #published: ModelStatus;

  constructor(spec: ModelSpec, status: ModelStatus, options: LiveProfileOptions) {
    this.spec = spec;
    this.#options = options;
    this.#published = status;
    // A given profile is the owner's, also after a restart of the profiler; a measured one is the last published.
    const seeds = spec.profile ?? status.profiles;
    this.#seeds = seeds.map((points) => LatencyTable.fromPoints(points, { batchSizeMax: spec.batchSizeMax }));
    const { quantile, window } = options;
    this.#observers = this.#seeds.map((seed) => new LatencyObserver({ seed, quantile, window }));
  }

  note(at: Instant, bucket: number, batchSize: number, run: Micros): void {
    this.#observers[bucket]?.note(at, batchSize, run);
  }

  /** The status to publish if something moved enough to matter to a plan; undefined otherwise. */
  news(at: Instant): ModelStatus | undefined {
    const profiles = this.#observers.map((observer, bucket) =>
      pointsAt(observer.planning(at), this.#sizesOf(bucket)).map(({ batchSize, latency }) => ({
        batchSize,
        latency: this.#bounded(bucket, batchSize, latency),
      })),
    );
    if (!profiles.some((points, bucket) => this.#moved(points, this.#published.profiles[bucket] ?? [])))
      return undefined;
    const means = this.#observers.map((observer, bucket) => pointsAt(observer.mean(at), this.#sizesOf(bucket)));
    this.#published = { ...this.#published, profiles, means };
    return this.#published;
  }

  /** Batch sizes of a bucket's profile. It may end before the model's largest batch: nothing is known beyond. */
  #sizesOf(bucket: number): number[] {
    const last = this.#seeds[bucket]?.batchSizeMax ?? 0;
    return batchSizesOf(this.spec.batchSizeMax).filter((size) => size <= last);
  }

  /**
   * Bounds a latency so that slow runs for a while don't make a servable model infeasible. Requests refused as
   * infeasible would never be measured again.
   */
  #bounded(bucket: number, batchSize: number, latency: Micros): Micros {
    const seed = this.#seeds[bucket]?.latency(batchSize) ?? latency;
    return micros(Math.min(latency, seed + Math.round(INFLATION_SHARE_MAX * this.spec.slo)));
  }

  #moved(points: ProfilePoints, before: ProfilePoints): boolean {
    const known = new Map(before.map(({ batchSize, latency }) => [batchSize, latency]));
    return points.some(({ batchSize, latency }) => {
      const old = known.get(batchSize);
      return old === undefined || Math.abs(latency - old) > Math.max(20, old * this.#options.newsShare);
    });
  }
}

const pointsAt = (table: LatencyTable, sizes: readonly number[]): ProfilePoints =>
  sizes.map((batchSize) => ({ batchSize, latency: table.latency(batchSize) }));
