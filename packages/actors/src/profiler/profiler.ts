/**
 * The profiler: measures l(b) of every loaded model, refuses models that can't meet their SLO, and refines live
 * profiles. It can be restarted at any time: all its decisions are in the store, and serving goes on with the last
 * profile. Of several profilers one is at work (duty.ts).
 */
import type { Stop } from "@tutti/ports/clock";
import {
  BUCKET,
  BatchFinished,
  ExecutorInventory,
  ModelReported,
  type ModelSpec,
  type ModelStatus,
  ProfileMeasured,
  ProfileWanted,
  isModelStatus,
} from "@tutti/protocol";
import { isStoreFailure } from "@tutti/ports/store";
import {
  type ActorKey,
  type GpuId,
  type Instant,
  type Micros,
  after,
  bucketOf,
  millis,
  modelNumberOf,
  seconds,
} from "@tutti/units";
import { writeStored } from "@tutti/wire";
import { Catalog, type CatalogModel } from "../runtime/catalog.ts";
import type { Actor, ActorConfig, ActorPorts } from "../runtime/ports.ts";
import { PlacementWatcher } from "../runtime/placement-watcher.ts";
import { plausible } from "../runtime/plausible.ts";
import { isOnDuty } from "../runtime/duty.ts";
import { ActorRuntime } from "../runtime/actor-runtime.ts";
import { ExecutorTypes } from "./executor-types.ts";
import { FailedModels } from "./failed-models.ts";
import { LiveProfiles } from "./live-profiles.ts";
import { ModelExecutors } from "./model-executors.ts";
import { ModelWork } from "./model-work.ts";
import { batchSizesOf } from "../runtime/profile-plan.ts";
import { RunTimePublisher } from "./run-time-publisher.ts";

export interface ProfilerConfig extends ActorConfig {
  /** Runs measured per batch size, and the time after which fewer are enough. */
  readonly runs: number;
  readonly budget: Micros;
  /** Accelerators that measure at once. */
  readonly gpusMax: number;
  /** Least time that a request needs besides its run. */
  readonly overhead: Micros;
  readonly window: Micros;
  /** W of docs/algorithms.md, B9: isolated running times count for one to two of it. Default: 60 s. */
  readonly timesWindow?: Micros;
}

export function createProfiler(ports: ActorPorts, config: ProfilerConfig, ready: () => void): Actor {
  return new Profiler(ports, config, ready);
}

/** Measurements are asked for again after their executor has been silent for this long. */
const ASK_AGAIN = seconds(10);
const TIMES_WINDOW = seconds(60);
/** Runs measured per batch size on a type that comes later: it may serve already, and live runs refine them. */
const TYPE_RUNS = 5;
/**
 * Delay before a model that ended its executor is tried again. That executor may be back by then; otherwise the model
 * would take the next one while the first is away.
 */
const TRY_AGAIN = seconds(2);

interface Asked {
  readonly executor: ActorKey;
  readonly gpu: GpuId;
  readonly bucket: number;
  readonly runs: number;
}

class Profiler implements Actor {
  readonly role = "profiler" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: ProfilerConfig;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #placement: PlacementWatcher;
  readonly #executors: ModelExecutors;
  readonly #works = new Map<string, ModelWork & { askedAt?: Instant }>();
  readonly #live = new Map<number, LiveProfiles>();
  readonly #types: ExecutorTypes;
  readonly #timers: Stop[];
  readonly #times: RunTimePublisher;
  /** Executors that could not load a ready model, and why, by model. */
  readonly #lacking = new Map<string, Map<ActorKey, string>>();
  readonly #failed: FailedModels;
  #runsSeen = 0;
  #published = 0;

  constructor(ports: ActorPorts, config: ProfilerConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#runtime = new ActorRuntime(ports, config, {
      role: "profiler",
      listensTo: ["executor", "profiler"],
      stats: () => ({ figures: this.#figures() }),
      onLost: (peer) => {
        this.#types.lose(peer.key);
        for (const work of this.#works.values()) work.forget(peer.key);
        for (const lacking of this.#lacking.values()) lacking.delete(peer.key);
      },
    });
    this.#types = new ExecutorTypes(this.#runtime, ports.clock, config.peerTimeout);
    this.#times = new RunTimePublisher({
      runtime: this.#runtime,
      store: ports.store,
      clock: ports.clock,
      window: config.timesWindow ?? TIMES_WINDOW,
      typeOf: (executor) => this.#types.of(executor),
      learned: (modelNumber, now) => this.#live.get(modelNumber)?.learned(now) ?? [],
      isOnDuty: () => this.#isOnDuty,
    });
    this.#placement = new PlacementWatcher(ports.store, this.#runtime.log, () => this.#onPlacement());
    this.#executors = new ModelExecutors(this.#runtime.registry, this.#placement);
    this.#failed = new FailedModels(this.#executors);
    this.#catalog = new Catalog(ports.store, this.#runtime.log, {
      onChange: (model, before) => {
        this.#onModel(model);
        if (before !== undefined && before.spec.number !== model.spec.number) this.#forgetNumber(before.spec.number);
        this.#times.onModel(model);
      },
      onGone: (model) => {
        this.#works.delete(model.spec.name);
        this.#lacking.delete(model.spec.name);
        this.#forgetNumber(model.spec.number);
        ports.store.delete(BUCKET.profiles, model.spec.name, () => undefined);
      },
    });
    this.#runtime.onPacked(ModelReported, (report) => this.#onReport(report));
    this.#runtime.onPacked(ExecutorInventory, (inventory, sender) => {
      if (sender === inventory.executor) this.#onInventory(inventory);
    });
    this.#runtime.onPacked(ProfileMeasured, (measured) => {
      const work = this.#works.get(measured.model);
      if (work === undefined) return this.#learn(measured);
      if (work.spec.number !== measured.number) return;
      work.note(measured);
      this.#advance(work);
    });
    const isPlausible = plausible(() => ports.clock.now()).finished;
    this.#runtime.onPlausible(BatchFinished, isPlausible, (finished) => this.#onFinished(finished));
    this.#timers = [
      ports.clock.every(seconds(1), () => this.#refine()),
      ports.clock.every(millis(500), () => this.#advanceAll()),
    ];
    this.#placement.open(() =>
      this.#catalog.open(() => {
        this.#times.open(this.#catalog.models());
        this.#runtime.open();
        ports.bus.flush(() => ready());
      }),
    );
  }

  drain(done: () => void): void {
    for (const timer of this.#timers) timer.stop();
    this.#times.stop();
    this.#catalog.close();
    this.#placement.close();
    this.#runtime.close(done);
  }

  /** A model is gone, or loaded anew under another number. */
  #forgetNumber(number: number): void {
    this.#live.delete(number);
    this.#types.forgetModel(number);
    this.#failed.forget(number);
    this.#times.onGone(number);
  }

  #onModel(model: CatalogModel): void {
    const { spec, status } = model;
    if (status?.state === "ready") {
      this.#works.delete(spec.name);
      this.#failed.forget(spec.number);
      if (this.#live.get(spec.number)?.spec.version !== spec.version)
        this.#live.set(
          spec.number,
          new LiveProfiles(spec, status, {
            window: this.#config.window,
            overhead: this.#config.overhead,
          }),
        );
      return;
    }
    if (status?.state === "failed") {
      if (!this.#works.has(spec.name)) this.#failed.note(spec);
      return;
    }
    this.#failed.forget(spec.number);
    if (status?.state === "refused") return;
    // Once it is released it has to be measured, if it never was.
    if (status?.state === "quarantined") return void this.#works.delete(spec.name);
    const known = this.#works.get(spec.name);
    if (known === undefined || known.spec.number !== spec.number || known.spec.version !== spec.version)
      this.#works.set(spec.name, new ModelWork(spec));
  }

  #onPlacement(): void {
    // A parked model leaves its executors, and so does what they reported of it.
    for (const name of this.#lacking.keys()) {
      const number = this.#catalog.get(name)?.spec.number;
      if (number === undefined || this.#executors.homeOf(number) === undefined) this.#lacking.delete(name);
    }
  }

  #onReport(report: ModelReported): void {
    this.#noteLack(report);
    const work = this.#works.get(report.model);
    if (
      work === undefined ||
      work.spec.number !== report.number ||
      work.spec.version !== report.version ||
      report.state === "unloaded"
    )
      return;
    work.reports.set(report.executor, {
      type: report.type,
      gpus: report.gpus,
      failure: report.state === "failed" ? report.reason : "",
    });
    this.#advance(work);
  }

  /**
   * Notes an executor that can't load a ready model. Such an executor serves no requests, since any model may be
   * granted to it; so a model that no executor can load must not stay ready.
   */
  #noteLack({ model: name, number, version, executor, state, reason }: ModelReported): void {
    const status = this.#catalog.get(name)?.status;
    const isOfIt = status?.state === "ready" && status.number === number && status.version === version;
    if (!isOfIt || state !== "failed") return void this.#lacking.get(name)?.delete(executor);
    const lacking = this.#lacking.get(name) ?? new Map<ActorKey, string>();
    this.#lacking.set(name, lacking.set(executor, reason));
    const executors = this.#executors.of(number);
    // An executor that is to take the model over, and can't, proves nothing about those that have it.
    if (executors.length === 0 || executors.some((key) => !lacking.has(key)) || !this.#isOnDuty) return;
    this.#lacking.delete(name);
    this.#publish({ ...status, state: "failed", reason });
  }

  #onFinished({ thread, batchSize, run, executor }: BatchFinished): void {
    this.#runsSeen++;
    const typed = { type: this.#types.of(executor), bucket: bucketOf(thread), batchSize, run };
    this.#live.get(modelNumberOf(thread))?.note(this.#ports.clock.now(), typed);
  }

  /** Takes from an inventory the loaded models whose `ModelReported` was lost. */
  #onInventory(inventory: ExecutorInventory): void {
    const { executor, gpus, type, models } = inventory;
    const isOther = this.#types.hear(inventory);
    this.#measureTypes(inventory);
    // Plans count a type before its executor serves: one that is held has its models loaded.
    if (isOther && this.#isOnDuty) for (const { number } of models) this.#refineNumber(number);
    for (const spec of this.#failed.takeHeld(inventory)) this.#works.set(spec.name, new ModelWork(spec));
    if (this.#works.size === 0) return;
    const versions = new Map(models.map(({ number, version }) => [number, version]));
    for (const work of this.#works.values()) {
      const { number, version } = work.spec;
      if (versions.get(number) !== version || work.reports.get(executor)?.failure === "") continue;
      work.reports.set(executor, { type, gpus, failure: "" });
      this.#advance(work);
    }
  }

  /** Asks for what a ready model takes on a type of executor that came after it was measured. */
  #measureTypes({ executor, gpus: [gpu], type, models }: ExecutorInventory): void {
    if (gpu === undefined || !this.#isOnDuty) return;
    const now = this.#ports.clock.now();
    for (const { number, version } of models) {
      const live = this.#live.get(number);
      if (live?.spec.version !== version) continue;
      const wanted = live.spec.buckets.map((_, bucket) => bucket).filter((bucket) => live.wants(type, bucket));
      if (wanted.length === 0 || !this.#types.mayAsk(number, type, now)) continue;
      for (const bucket of wanted) this.#askFor(live.spec, { executor, gpu, bucket, runs: TYPE_RUNS });
    }
  }

  #learn(measured: ProfileMeasured): void {
    const live = this.#live.get(measured.number);
    if (live?.spec.name !== measured.model) return;
    if (live.learn(measured) && this.#isOnDuty) this.#refineOne(live);
  }

  #advanceAll(): void {
    for (const work of this.#works.values()) this.#advance(work);
  }

  /** Advances a model from loading to measuring to the verdict, whenever something is new. */
  #advance(work: ModelWork & { askedAt?: Instant }): void {
    if (!this.#isOnDuty) return;
    const executors = this.#executors.of(work.spec.number);
    const failure = work.failureOf((executor) => this.#executors.includes(work.spec.number, executor));
    if (failure !== "") return this.#publish(work.status("failed", failure));
    if (executors.length === 0 || executors.some((executor) => !work.reports.has(executor))) return;
    const { overhead, gpusMax } = this.#config;
    if (work.spec.profile !== undefined)
      return this.#publish(work.decide(work.spec.profile, work.spec.profile, overhead));
    const now = this.#ports.clock.now();
    const struckAt = this.#catalog.get(work.spec.name)?.faults?.strikes.at(-1)?.at;
    if (struckAt !== undefined && now < after(struckAt, TRY_AGAIN)) return;
    if (work.measurements.length === 0) {
      work.planMeasurements(gpusMax, executors);
      delete work.askedAt;
      this.#runtime.log.info(
        { model: work.spec.name, accelerators: work.measurements.length / work.spec.buckets.length },
        "measures",
      );
    }
    // A planner may have taken the accelerators of its executors: they are asked again when they report others.
    if (work.measurements.length === 0) return;
    if (work.missing.length === 0) {
      if (work.endTrial()) return this.#advance(work);
      if (!work.planLateTypes(executors)) return this.#publish(work.conclude(overhead));
      delete work.askedAt;
    }
    if (work.askedAt !== undefined && now - work.askedAt < ASK_AGAIN) return;
    work.askedAt = now;
    const runs = work.isTrial ? 1 : this.#config.runs;
    for (const { executor, gpu, bucket } of work.missing) this.#askFor(work.spec, { executor, gpu, bucket, runs });
  }

  #askFor({ name, number, batchSizeMax }: ModelSpec, { executor, gpu, bucket, runs }: Asked): void {
    this.#runtime.send(executor, ProfileWanted, {
      ...{ profiler: this.key, gpu, model: name, number, bucket, runs, budget: this.#config.budget },
      batchSizes: batchSizesOf(batchSizeMax),
    });
  }

  #refine(): void {
    if (!this.#isOnDuty) return;
    for (const live of this.#live.values()) this.#refineOne(live);
  }

  #refineNumber(number: number): void {
    const live = this.#live.get(number);
    if (live !== undefined) this.#refineOne(live);
  }
  #refineOne(live: LiveProfiles): void {
    const { name, number } = live.spec;
    const knowsAll = this.#types.knowsAll(this.#executors.of(number));
    const news = live.news(this.#ports.clock.now(), this.#types.serving(number), knowsAll);
    const { spec, status } = this.#catalog.get(name) ?? {};
    // The model may have failed since, or been loaded anew: its latencies don't undo that.
    if (news !== undefined && spec?.number === number && status?.state === "ready") this.#publish(news);
  }

  get #isOnDuty(): boolean {
    return isOnDuty(this.#runtime, "profiler", this.key);
  }

  #figures(): Record<string, number> {
    return {
      working: this.#works.size,
      live: this.#live.size,
      runs: this.#runsSeen,
      published: this.#published,
      ...this.#times.figures(),
    };
  }

  #publish(status: ModelStatus): void {
    const spec = this.#catalog.get(status.name)?.spec;
    if (status.state === "failed" && spec !== undefined) this.#failed.note(spec, this.#works.get(status.name));
    this.#works.delete(status.name);
    this.#published++;
    this.#ports.store.put(BUCKET.profiles, status.name, writeStored(isModelStatus, status), (result) => {
      if (!isStoreFailure(result)) return;
      this.#runtime.log.warn(
        { model: status.name, failure: result.failure },
        "a profile can't be stored; it is tried again",
      );
      const model = this.#catalog.get(status.name);
      if (model !== undefined) this.#onModel(model);
    });
  }
}
