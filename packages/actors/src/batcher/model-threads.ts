import type { Clock } from "@tutti/ports/clock";
import {
  type ModelOffered,
  type ModelSpec,
  THREAD_BATCHES_MAX,
  SLO_US_MAX,
  THREAD_REQUESTS_MAX,
  rowLayout,
  typicalLengths,
  threadName,
  threadOf,
} from "@tutti/protocol";
import { LatencyTable } from "@tutti/profile";
import {
  type DynamicProfile,
  type FastestType,
  type ModelEvent,
  type ModelThreadConfig,
  type UnfitTypes,
  createModelThread,
  profileOfJobs,
} from "@tutti/scheduling";
import { type ThreadId, type Instant, type Micros, jobThreadOf, micros } from "@tutti/units";
import type { CatalogModel } from "../runtime/catalog.ts";
import { reserve } from "../runtime/reserve.ts";
import { OwnProfiles, unfitOf } from "./own-profiles.ts";
import type { RankerRouter } from "./ranker-router.ts";
import type { ArrivalOrder } from "./arrival-order.ts";
import type { BatcherConfig } from "./batcher-config.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { dynamicOf, variationOf } from "./dynamic-models.ts";
import { jobRunMaxBeside, leastSlack } from "./job-bounds.ts";
import type { SampleSelector } from "./sample-selector.ts";
import { shareRulesOf } from "./quota-publisher.ts";
import { PASSING_TAKES } from "./ownership/model-migration.ts";
import { type MeasuredDelays, PullCost } from "./pull-cost.ts";
import { AT_FIRST, type ThreadEntry, type ThreadTable } from "./thread-table.ts";

/**
 * Settings of a ModelThread for jobs: a batch starts whenever it may. Its SLO is the time that a job is held: nothing
 * waits for more jobs.
 */
const JOB_TUNING = {
  ...{ policy: { kind: "eager" }, prefer: "accelerators", gather: "head", patience: 1 },
  ...{ slo: micros(SLO_US_MAX), isForJobs: true },
} as const satisfies Partial<ModelThreadConfig>;

/** Room for 2^34 batches per thread, so that ids stay unique in a batcher and below 2^53. */
const BATCH_IDS = 2 ** 34;

export interface ModelThreadsOptions {
  readonly clock: Clock;
  readonly config: Pick<
    BatcherConfig,
    "policy" | "prefer" | "gather" | "patience" | "delayFloors" | "marginShare" | "latency"
  >;
  readonly threads: ThreadTable;
  readonly order: ArrivalOrder;
  readonly dispatcher: Dispatcher;
  readonly selector: SampleSelector;
  readonly router: RankerRouter;
  readonly step: (entry: ThreadEntry, event: ModelEvent) => void;
  readonly catalog: () => { models(): Iterable<CatalogModel>; ofThread(thread: ThreadId): CatalogModel | undefined };
  /** Whether the model is about to move to another batcher. */
  readonly isPassing: (modelNumber: number) => boolean;
  readonly onStarted: (name: string, term: number) => void;
}

/** Starts and ends the ModelThreads of a batcher, and sets the delays that they plan with. */
export class ModelThreads {
  readonly #options: ModelThreadsOptions;
  #threadsStarted = 0;
  /** The term under which each model's threads were started last (BATCHER-1). */
  readonly #ownProfiles = new OwnProfiles();
  readonly #startedUnder = new Map<number, number>();
  /** Measurements of earlier owners of models, kept until the threads start. */
  readonly #handedOn = new Map<number, ModelOffered>();

  constructor(options: ModelThreadsOptions) {
    this.#options = options;
  }

  /**
   * Whether the model's threads were started under this term before. Restarted threads need a new term (BATCHER-1):
   * they count offers and arrivals from one, which would be taken for old ones.
   */
  hasRunUnder(modelNumber: number, term: number): boolean {
    return this.#startedUnder.get(modelNumber) === term;
  }
  forget(modelNumber: number): void {
    this.#startedUnder.delete(modelNumber);
    this.#handedOn.delete(modelNumber);
  }
  expect(offered: ModelOffered): void {
    this.#handedOn.set(offered.number, offered);
  }

  start(model: CatalogModel): void {
    const { spec } = model;
    const term = model.lease?.term ?? 0;
    this.#startedUnder.set(spec.number, term);
    const handedOn = this.#handedOn.get(spec.number);
    this.#handedOn.delete(spec.number);
    for (let bucket = 0; bucket < spec.buckets.length; bucket++) {
      const profile = this.#profileOf(model, bucket);
      const delays = handedOn?.delays[bucket];
      const seed = delays === undefined ? this.#neighbours() : { ctrl: delays.ctrl, perItem: delays.perItemNs / 1_000 };
      const dynamic = this.#dynamicOf(model, bucket);
      if (profile === undefined) continue;
      this.#ownProfiles.note(threadOf(spec, bucket), bucket, model.status, profile);
      const types = {
        unfit: unfitOf(model.status),
        fastest: this.#ownProfiles.fastest(threadOf(spec, bucket), model.status),
      };
      this.#startThread({ spec, bucket, profile, dynamic, ...types, term, seed, isForJobs: false });
      this.#options.selector.setVariation(threadOf(spec, bucket), variationOf(model, bucket));
    }
  }

  /**
   * Starts the thread of a model's jobs, when the first of them comes.
   *
   * @param requests - the thread of its requests, which is here
   */
  startJobs(requests: ThreadEntry): ThreadEntry | undefined {
    const { spec, bucket, term, pullCost } = requests;
    const model = this.#options.catalog().ofThread(requests.id);
    const profile = model && this.#profileOf(model, bucket);
    if (profile === undefined) return undefined;
    const seed = pullCost.measured(this.#options.clock.now());
    const unfit = unfitOf(model?.status);
    const begin = { spec, bucket, profile, dynamic: undefined, unfit, term, seed, isForJobs: true };
    const entry = this.#startThread(begin);
    this.#boundJobs(entry, this.#leastSlackIn(entry.subCluster));
    return entry;
  }

  /** Bounds the runs of all jobs by the models beside them, which come and go. */
  boundAllJobs(): void {
    const slacks = new Map<string | undefined, number>();
    for (const entry of this.#options.threads.values()) {
      if (!entry.isForJobs) continue;
      const slack = slacks.get(entry.subCluster) ?? this.#leastSlackIn(entry.subCluster);
      slacks.set(entry.subCluster, slack);
      this.#boundJobs(entry, slack);
    }
  }

  #leastSlackIn(subCluster: string | undefined): number {
    const { catalog, router } = this.#options;
    const isBeside = ({ spec, status }: CatalogModel): boolean =>
      status?.state === "ready" && router.placement.subClusterOf(spec.number) === subCluster;
    return leastSlack([...catalog().models()].filter(isBeside));
  }

  #boundJobs(entry: ThreadEntry, slack: number): void {
    const { catalog, step, clock } = this.#options;
    const model = catalog().ofThread(entry.id);
    const whole = model && this.#profileOf(model, entry.bucket);
    if (whole === undefined) return;
    const profile = profileOfJobs(whole, jobRunMaxBeside(slack, entry.core));
    entry.isTooLong = profile === undefined;
    // Those that are queued already run one by one.
    const event = { profile: profile ?? profileOfJobs(whole, whole.latency(1))!, unfit: unfitOf(model?.status) };
    step(entry, { kind: "profile-changed", at: clock.now(), ...event });
  }

  /** Ends the threads of a model that has left this batcher or is about to restart. */
  end(model: CatalogModel): void {
    const { threads, order, dispatcher } = this.#options;
    for (const entry of this.#entriesOf(model)) {
      dispatcher.forgetThread(entry.id); // The dispatcher needs the entry to find the thread's leader.
      threads.remove(entry);
      order.forgetThread(entry.id);
      this.#ownProfiles.forget(entry.id);
    }
  }

  reprofile(model: CatalogModel): void {
    const at = this.#options.clock.now();
    for (const entry of this.#entriesOf(model)) {
      if (entry.isForJobs) continue; // boundAllJobs
      const profile = this.#profileOf(model, entry.bucket);
      const dynamic = this.#dynamicOf(model, entry.bucket);
      this.#options.selector.setVariation(entry.id, variationOf(model, entry.bucket));
      if (profile === undefined) continue;
      this.#ownProfiles.note(entry.id, entry.bucket, model.status, profile);
      const types = { unfit: unfitOf(model.status), fastest: this.#ownProfiles.fastest(entry.id, model.status) };
      this.#options.step(entry, { kind: "profile-changed", at, profile, dynamic, ...types });
    }
  }

  /** Latencies of a thread on the granted accelerator; undefined: as planned. */
  ownProfile(thread: ThreadId, typeOf: () => string | undefined): LatencyTable | undefined {
    return this.#ownProfiles.of(thread, typeOf);
  }

  /** Updates the delays that threads plan with to the present measurements. */
  retuneAll(): void {
    for (const entry of this.#options.threads.values()) this.#retune(entry);
  }
  retune(modelNumber: number): void {
    for (const entry of this.#options.threads.values()) if (entry.spec.number === modelNumber) this.#retune(entry);
  }

  /** Measured delays, for the batcher that takes the model over. */
  delaysOf(model: CatalogModel): ModelOffered["delays"] {
    const at = this.#options.clock.now();
    return this.#entriesOf(model).flatMap(({ pullCost, isForJobs }) => {
      if (isForJobs) return [];
      const { ctrl, perItem } = pullCost.measured(at);
      return [{ ctrl, perItemNs: Math.round(perItem * 1_000) }];
    });
  }

  #dynamicOf(model: CatalogModel, bucket: number): DynamicProfile | undefined {
    return this.#options.config.latency === "means" ? undefined : dynamicOf(model, bucket);
  }
  #profileOf(model: CatalogModel, bucket: number): LatencyTable | undefined {
    const means = this.#options.config.latency === "means" ? model.status?.means[bucket] : undefined;
    return means === undefined || means.length === 0
      ? profileOf(model, bucket)
      : LatencyTable.fromPoints(means, { batchSizeMax: model.spec.batchSizeMax });
  }

  #entriesOf(model: CatalogModel): ThreadEntry[] {
    const { threads } = this.#options;
    const ids = model.spec.buckets.map((_, bucket) => threadOf(model.spec, bucket));
    return [...ids, ...ids.map(jobThreadOf)].map((id) => threads.get(id)).filter((entry) => entry !== undefined);
  }

  /**
   * Initial delays for a thread without measurements of a predecessor. They are those of the slowest of our other
   * threads, which share the way to rankers and executors.
   */
  #neighbours(): MeasuredDelays | undefined {
    const at = this.#options.clock.now();
    let slowest: MeasuredDelays | undefined;
    for (const { pullCost } of this.#options.threads.values()) {
      const measured = pullCost.measured(at);
      if (slowest === undefined || measured.ctrl > slowest.ctrl) slowest = { ctrl: measured.ctrl, perItem: 0 };
    }
    return slowest;
  }

  #startThread(begin: {
    readonly spec: ModelSpec;
    readonly bucket: number;
    readonly profile: LatencyTable;
    readonly dynamic: DynamicProfile | undefined;
    readonly unfit: UnfitTypes;
    readonly fastest?: FastestType | undefined;
    readonly term: number;
    readonly seed: MeasuredDelays | undefined;
    readonly isForJobs: boolean;
  }): ThreadEntry {
    const { spec, bucket, profile, dynamic, unfit, fastest, term, seed, isForJobs } = begin;
    const { config, clock, dispatcher, threads, router } = this.#options;
    const subCluster = router.placement.subClusterOf(spec.number);
    const pullCost = new PullCost(config.delayFloors, rowLayout(spec, bucket, typicalLengths(spec)).byteLength, seed);
    const id = isForJobs ? jobThreadOf(threadOf(spec, bucket)) : threadOf(spec, bucket);
    const core = createModelThread({
      thread: id,
      term,
      epoch: router.leaders.of(subCluster)?.epoch ?? 0,
      profile,
      dynamic,
      unfit,
      fastest,
      slo: spec.slo,
      policy: config.policy,
      ...(config.prefer !== undefined && { prefer: config.prefer }),
      patience: config.patience ?? spec.patience,
      gather: config.gather,
      guard: this.#guardOf(spec),
      ctrl: reserve(pullCost.ctrl(clock.now()), spec.slo),
      perItem: Math.round(pullCost.perItem()) as Micros,
      respond: reserve(dispatcher.respond, spec.slo),
      queueMax: THREAD_REQUESTS_MAX,
      batchesInFlightMax: THREAD_BATCHES_MAX,
      batchIdBase: this.#threadsStarted++ * BATCH_IDS + 1,
      since: clock.now(),
      shares: shareRulesOf(spec),
      ...(isForJobs && JOB_TUNING),
    });
    const own = { index: threads.nextIndex(), id, spec, bucket, term, isForJobs, core, pullCost, subCluster };
    const entry = { ...own, ...AT_FIRST };
    threads.add(entry);
    this.#options.onStarted(isForJobs ? `jobs of ${threadName(spec, bucket)}` : threadName(spec, bucket), term);
    return entry;
  }

  #retune(entry: ThreadEntry): void {
    const at: Instant = this.#options.clock.now();
    const { slo } = entry.spec;
    const perItem = micros(Math.round(entry.pullCost.perItem()));
    const ctrl = reserve(entry.pullCost.ctrl(at), slo);
    const respond = reserve(this.#options.dispatcher.respond, slo);
    this.#options.step(entry, { kind: "delays-changed", at, ctrl, perItem, respond, guard: this.#guardOf(entry.spec) });
  }

  #guardOf(spec: ModelSpec): Micros {
    const { config, clock } = this.#options;
    // The adaptive policy already starts earlier than frontrun.
    const marginShare = config.policy.kind === "adaptive" ? 0 : config.marginShare;
    const passing = this.#options.isPassing(spec.number) ? reserve(PASSING_TAKES, spec.slo) : 0;
    return micros(reserve(clock.lateness(), spec.slo) + Math.round(marginShare * spec.slo) + passing);
  }
}

export function profileOf(model: CatalogModel, bucket: number): LatencyTable | undefined {
  const points = model.status?.profiles[bucket];
  if (points === undefined || points.length === 0) return undefined;
  return LatencyTable.fromPoints(points, { batchSizeMax: model.spec.batchSizeMax });
}
