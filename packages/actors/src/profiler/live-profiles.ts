import { LatencyObserver, LatencyTable } from "@tutti/profile";
import type { ModelSpec, ModelStatus, ProfilePoints } from "@tutti/protocol";
import type { Instant, Micros } from "@tutti/units";
import { batchSizesOf } from "./profile-plan.ts";

export interface LiveProfileOptions {
  readonly quantile: number;
  readonly window: Micros;
  /** A point that moved by less than this share is not news. */
  readonly newsShare: number;
}

/** The profiles of one ready model, refined from live runs. */
export class LiveProfiles {
  readonly spec: ModelSpec;
  readonly #options: LiveProfileOptions;
  readonly #observers: LatencyObserver[];
  #published: ModelStatus;
  #noted = false;

  constructor(spec: ModelSpec, status: ModelStatus, options: LiveProfileOptions) {
    this.spec = spec;
    this.#options = options;
    this.#published = status;
    this.#observers = status.profiles.map(
      (points) =>
        new LatencyObserver({
          seed: LatencyTable.fromPoints(points, { batchSizeMax: spec.batchSizeMax }),
          quantile: options.quantile,
          window: options.window,
        }),
    );
  }

  note(at: Instant, bucket: number, batchSize: number, run: Micros): void {
    this.#observers[bucket]?.note(at, batchSize, run);
    this.#noted = true;
  }

  /** The status to publish when something moved enough to matter to a plan; undefined otherwise. */
  news(at: Instant): ModelStatus | undefined {
    if (!this.#noted) return undefined;
    this.#noted = false;
    const sizes = batchSizesOf(this.spec.batchSizeMax);
    const profiles = this.#observers.map((observer) => pointsAt(observer.planning(at), sizes));
    if (!profiles.some((points, bucket) => this.#moved(points, this.#published.profiles[bucket] ?? [])))
      return undefined;
    const means = this.#observers.map((observer) => pointsAt(observer.mean(at), sizes));
    this.#published = { ...this.#published, profiles, means };
    return this.#published;
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
