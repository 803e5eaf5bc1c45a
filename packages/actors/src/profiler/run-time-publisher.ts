import type { Clock, Stop } from "@tutti/ports/clock";
import { LatencyTable, RunTimeStats, isLearnedNews, isNews } from "@tutti/profile";
import {
  AloneMeasured,
  AppsCounted,
  AppsNamed,
  BUCKET,
  type BucketRunTimes,
  type LearnedProfile,
  type LearnedSize,
  type ModelRunTimes,
  isModelRunTimes,
  runTimesKeys,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import {
  type ActorKey,
  type Instant,
  type Micros,
  type ThreadId,
  after,
  bucketOf,
  micros,
  millis,
  modelNumberOf,
  seconds,
} from "@tutti/units";
import { fnv1a, writeStored } from "@tutti/wire";
import type { CatalogModel } from "../runtime/catalog.ts";
import type { ActorRuntime } from "../runtime/actor-runtime.ts";
import { batchSizesOf } from "../runtime/profile-plan.ts";

export interface RunTimePublisherOptions {
  readonly runtime: ActorRuntime;
  readonly store: Store;
  readonly clock: Clock;
  /** Samples count for one to two windows. */
  readonly window: Micros;
  /** Type of an executor; undefined while it isn't known. */
  readonly typeOf: (executor: ActorKey) => string | undefined;
  /** Latencies that plans use, and recent runs; empty: nothing has run lately, and plans use what was given. */
  readonly learned: (modelNumber: number, now: Instant) => readonly LearnedSize[];
  /** Whether this profiler stores anything. */
  readonly isOnDuty: () => boolean;
}

/** How often news of a model is published (B9). */
const PUBLISH_EVERY = seconds(5);
/** Models take turns: computing all of many at once would hold the profiler up. */
const TURN_EVERY = millis(250);
const TURNS = Math.round(PUBLISH_EVERY / TURN_EVERY);
/** Interval of publishing changes that affect no decision, such as the number of samples or the spread of runs. */
const RETELL_AFTER = seconds(60);
const NAMES_KEPT = 4_096;

interface Kept {
  model: CatalogModel;
  readonly runTimeStats: readonly RunTimeStats[];
  /** By bucket; empty: not yet. */
  published: readonly BucketRunTimes[];
  learned: LearnedProfile | undefined;
  publishedAt: Instant;
  /** Whether times alone were noted since the last turn. */
  isTouched: boolean;
}

/**
 * Keeps the isolated running times of requests, by model and application. They are measured by executors, published in
 * the store, and restored from there. What live runs have taught of the profile is published with them.
 */
export class RunTimePublisher {
  readonly #options: RunTimePublisherOptions;
  readonly #kept = new Map<number, Kept>();
  readonly #names = new Map<number, string>();
  readonly #timer: Stop;
  #opened = false;
  #turn = 0;
  #samples = 0;
  #published = 0;

  constructor(options: RunTimePublisherOptions) {
    this.#options = options;
    const { runtime, clock } = options;
    runtime.onPacked(AloneMeasured, ({ thread, samples, batches, pairs = [] }, executor) =>
      this.#note(thread, (runTimeStats, now) => {
        const type = options.typeOf(executor);
        this.#samples += samples.length;
        for (const { app, units, alone } of samples) runTimeStats.note(now, { app, units, alone, type });
        for (const batch of batches) runTimeStats.noteBatch(now, batch);
        for (const { once, again } of pairs) runTimeStats.notePair(now, once, again, type);
      }),
    );
    runtime.onPacked(AppsCounted, ({ thread, apps }) =>
      this.#note(thread, (runTimeStats, now) => {
        for (const { app, count } of apps) runTimeStats.count(now, app, count);
      }),
    );
    runtime.onPacked(AppsNamed, ({ apps }) => this.#hear(apps));
    this.#timer = clock.every(TURN_EVERY, () => this.#onTurn());
  }

  /** Starts from the results of an earlier profiler: all stored running times have been read. */
  open(models: Iterable<CatalogModel>): void {
    this.#opened = true;
    for (const model of models) this.onModel(model);
  }
  stop(): void {
    this.#timer.stop();
  }

  onModel(model: CatalogModel): void {
    const { number, version } = model.spec;
    const known = this.#kept.get(number);
    if (known !== undefined && known.model.spec.version === version) known.model = model;
    else if (this.#opened && model.status?.state === "ready") this.#kept.set(number, this.#begin(model));
  }
  onGone(modelNumber: number): void {
    this.#kept.delete(modelNumber);
    this.#options.store.delete(BUCKET.profiles, runTimesKeys.model(modelNumber), () => undefined);
  }

  figures(): Record<string, number> {
    return { timed: this.#kept.size, aloneSamples: this.#samples, timesPublished: this.#published };
  }

  #begin(model: CatalogModel): Kept {
    const now = this.#options.clock.now();
    const { spec, times } = model;
    const variesBySpec = Object.values(spec.axes).some(({ mode }) => mode === "pad");
    const kept: Kept = {
      model,
      runTimeStats: spec.buckets.map((_, bucket) => {
        const restored = times?.buckets[bucket];
        const table = seedOf(model, bucket);
        return new RunTimeStats({
          window: this.#options.window,
          table: (batchSize) => table.latency(batchSize),
          sizes: batchSizesOf(spec.batchSizeMax),
          variesBySpec,
          ...(restored !== undefined && { restored: { at: now, times: restored } }),
        });
      }),
      published: times?.buckets ?? [],
      learned: times?.learned,
      publishedAt: now,
      isTouched: variesBySpec,
    };
    return kept;
  }

  #note(thread: ThreadId, note: (runTimeStats: RunTimeStats, now: Instant) => void): void {
    const kept = this.#kept.get(modelNumberOf(thread));
    const runTimeStats = kept?.runTimeStats[bucketOf(thread)];
    if (kept === undefined || runTimeStats === undefined) return;
    note(runTimeStats, this.#options.clock.now());
    kept.isTouched = true;
  }

  #hear(apps: readonly string[]): void {
    for (const name of apps) {
      const number = fnv1a(name);
      this.#names.delete(number); // The newest come last.
      this.#names.set(number, name);
    }
    for (const oldest of this.#names.keys()) {
      if (this.#names.size <= NAMES_KEPT) break;
      this.#names.delete(oldest);
    }
  }

  #onTurn(): void {
    this.#turn = (this.#turn + 1) % TURNS;
    if (!this.#options.isOnDuty()) return;
    const now = this.#options.clock.now();
    for (const [number, kept] of this.#kept)
      if (number % TURNS === this.#turn && kept.model.status?.state === "ready") this.#tell(kept, now);
  }

  #tell(kept: Kept, now: Instant): void {
    const { name, number, version } = kept.model.spec;
    const sizes = this.#options.learned(number, now);
    const times = kept.isTouched ? kept.runTimeStats.map((one) => this.#named(one.times(now))) : kept.published;
    const isDue = now >= after(kept.publishedAt, RETELL_AFTER);
    const hasNews =
      kept.isTouched &&
      (times.some((one, bucket) => isNews(kept.published[bucket], one)) || (isDue && kept.published.length > 0));
    const hasLearned = sizes.length > 0 && (isDue || isLearnedNews(kept.learned?.sizes ?? [], sizes));
    kept.isTouched = false;
    if (!hasNews && !hasLearned) return;
    // Times of which too little is known to be news stay unpublished.
    if (hasNews || kept.published.length > 0) kept.published = times;
    if (sizes.length > 0) kept.learned = { at: now, sizes };
    kept.publishedAt = now;
    const value: ModelRunTimes = {
      ...{ name, number, version, buckets: kept.published },
      ...(kept.learned !== undefined && { learned: kept.learned }),
    };
    this.#published++;
    this.#options.store.put(
      BUCKET.profiles,
      runTimesKeys.model(number),
      writeStored(isModelRunTimes, value),
      (result) => {
        if (!isStoreFailure(result)) return;
        kept.published = [];
        kept.learned = undefined;
        kept.isTouched = true;
        const { log } = this.#options.runtime;
        log.warn({ model: name, failure: result.failure }, "running times can't be stored; they are tried again");
      },
    );
  }

  #named(times: BucketRunTimes): BucketRunTimes {
    return { ...times, apps: times.apps.map((app) => ({ ...app, name: this.#names.get(app.app) ?? app.name })) };
  }
}

/**
 * Seed latencies as given or first measured, with inputs of one length. Later live runs mix in which requests came
 * alone and which together: in them two seem to take five times as long as one, because a long request is likelier
 * among two.
 */
function seedOf({ spec, status }: CatalogModel, bucket: number): LatencyTable {
  const points = spec.profile?.[bucket] ?? status?.means[bucket] ?? [];
  const known = points.length > 0 ? points : [{ batchSize: 1, latency: micros(spec.slo / 2) }];
  return LatencyTable.fromPoints(known, { batchSizeMax: spec.batchSizeMax });
}
