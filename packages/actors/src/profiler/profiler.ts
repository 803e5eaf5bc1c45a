/**
 * The profiler: measures l(b) of every model that is loaded, refuses what can't meet its SLO, and refines profiles from live runs. It can be restarted at any
 * time: everything it decided stands in the store, and serving goes on with the last profile.
 */
import type { Stop } from "@tutti/clock";
import {
  BUCKET,
  BatchFinished,
  ModelReported,
  type ModelStatus,
  ProfileMeasured,
  ProfileWanted,
} from "@tutti/protocol";
import { isStoreFailure } from "@tutti/store";
import { type ActorKey, type Instant, type Micros, bucketOf, millis, modelNumberOf, seconds } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { Catalog, type CatalogModel } from "../catalog.ts";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { Station } from "../station.ts";
import { wellFormed } from "../well-formed.ts";
import { LiveProfiles } from "./live-profiles.ts";
import { ModelWork } from "./model-work.ts";
import { batchSizesOf } from "./profile-plan.ts";

export interface ProfilerConfig extends ActorConfig {
  /** Of l(b) for planning, so that a real model meets its deadlines while its neighbours are busy. */
  readonly quantile: number;
  /** Runs measured per batch size, and the time after which fewer are enough. */
  readonly runs: number;
  readonly budget: Micros;
  /** Accelerators that measure at once. */
  readonly gpusMax: number;
  /** What a request needs besides its run, at the least. */
  readonly overhead: Micros;
  readonly window: Micros;
}

export function createProfiler(ports: ActorPorts, config: ProfilerConfig, ready: () => void): Actor {
  return new Profiler(ports, config, ready);
}

/** Measurements are asked for again when their executor has been silent for so long. */
const ASK_AGAIN = seconds(10);

class Profiler implements Actor {
  readonly role = "profiler" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: ProfilerConfig;
  readonly #station: Station;
  readonly #catalog: Catalog;
  readonly #works = new Map<string, ModelWork & { askedAt?: Instant }>();
  readonly #live = new Map<number, LiveProfiles>();
  readonly #timers: Stop[];
  /** Of ready models: executors that could not load them, and why. */
  readonly #lacking = new Map<string, Map<ActorKey, string>>();
  #runsSeen = 0;
  #published = 0;

  constructor(ports: ActorPorts, config: ProfilerConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#station = new Station(ports, config, {
      role: "profiler",
      listensTo: ["executor"],
      stats: () => ({
        figures: { working: this.#works.size, live: this.#live.size, runs: this.#runsSeen, published: this.#published },
      }),
      onLost: (peer) => {
        for (const work of this.#works.values()) work.forget(peer.key);
        for (const lacking of this.#lacking.values()) lacking.delete(peer.key);
      },
    });
    this.#catalog = new Catalog(ports.store, this.#station.log, {
      onChange: (model) => this.#onModel(model),
      onGone: (model) => {
        this.#works.delete(model.spec.name);
        this.#live.delete(model.spec.number);
        this.#lacking.delete(model.spec.name);
        ports.store.delete(BUCKET.profiles, model.spec.name, () => undefined);
      },
    });
    const { reader } = this.#station;
    this.#station.onPacked(ModelReported, wellFormed.modelReported, (report) => this.#onReport(report));
    this.#station.onPacked(ProfileMeasured, wellFormed.profileMeasured, (measured) => {
      const work = this.#works.get(measured.model);
      if (work === undefined || work.spec.number !== measured.number) return;
      work.note(measured);
      this.#advance(work);
    });
    reader.on(BatchFinished, ({ thread, batchSize, run }) => {
      this.#runsSeen++;
      this.#live.get(modelNumberOf(thread))?.note(ports.clock.now(), bucketOf(thread), batchSize, run);
    });
    this.#timers = [
      ports.clock.every(seconds(2), () => this.#refine()),
      ports.clock.every(millis(500), () => this.#advanceAll()),
    ];
    this.#catalog.open(() => {
      this.#station.open();
      ports.bus.flush(() => ready());
    });
  }

  drain(done: () => void): void {
    for (const timer of this.#timers) timer.stop();
    this.#catalog.close();
    this.#station.close(done);
  }

  #onModel(model: CatalogModel): void {
    const { spec, status } = model;
    if (status?.state === "ready") {
      this.#works.delete(spec.name);
      if (this.#live.get(spec.number)?.spec.version !== spec.version)
        this.#live.set(
          spec.number,
          new LiveProfiles(spec, status, {
            quantile: this.#config.quantile,
            window: this.#config.window,
            newsShare: 0.05,
          }),
        );
      return;
    }
    if (status?.state === "refused" || status?.state === "failed") return;
    // Once it is released it has to be measured, if it never was.
    if (status?.state === "quarantined") return void this.#works.delete(spec.name);
    const known = this.#works.get(spec.name);
    if (known === undefined || known.spec.number !== spec.number || known.spec.version !== spec.version)
      this.#works.set(spec.name, new ModelWork(spec));
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

  /** An executor that can't load a ready model serves nobody, since it may be granted to any; so a model that no executor can load must not stay ready. */
  #noteLack({ model: name, number, version, executor, state, reason }: ModelReported): void {
    const status = this.#catalog.get(name)?.status;
    const isOfIt = status?.state === "ready" && status.number === number && status.version === version;
    if (!isOfIt || state !== "failed") return void this.#lacking.get(name)?.delete(executor);
    const lacking = this.#lacking.get(name) ?? new Map<ActorKey, string>();
    this.#lacking.set(name, lacking.set(executor, reason));
    const executors = [...this.#station.directory.ofRole("executor")];
    if (executors.length === 0 || executors.some(({ key }) => !lacking.has(key))) return;
    this.#lacking.delete(name);
    this.#publish({ ...status, state: "failed", reason });
  }

  #advanceAll(): void {
    for (const work of this.#works.values()) this.#advance(work);
  }

  /** Loading, then measuring, then the verdict; called whenever something is new. */
  #advance(work: ModelWork & { askedAt?: Instant }): void {
    if (work.failure !== "") return this.#publish(work.status("failed", work.failure));
    const executors = [...this.#station.directory.ofRole("executor")];
    if (executors.length === 0 || executors.some((executor) => !work.reports.has(executor.key))) return;
    const { overhead, quantile, gpusMax } = this.#config;
    if (work.spec.profile !== undefined)
      return this.#publish(work.decide(work.spec.profile, work.spec.profile, overhead));
    if (work.measurements.length === 0) {
      work.planMeasurements(gpusMax);
      this.#station.log.info(
        { model: work.spec.name, accelerators: work.measurements.length / work.spec.buckets.length },
        "measures",
      );
    }
    if (work.missing.length === 0) return this.#publish(work.conclude(quantile, overhead));
    const now = this.#ports.clock.now();
    if (work.askedAt !== undefined && now - work.askedAt < ASK_AGAIN) return;
    work.askedAt = now;
    for (const { executor, gpu, bucket } of work.missing) {
      this.#station.send(executor, ProfileWanted, {
        profiler: this.key,
        gpu,
        model: work.spec.name,
        number: work.spec.number,
        bucket,
        batchSizes: batchSizesOf(work.spec.batchSizeMax),
        runs: this.#config.runs,
        budget: this.#config.budget,
      });
    }
  }

  #refine(): void {
    const now = this.#ports.clock.now();
    for (const live of this.#live.values()) {
      const news = live.news(now);
      if (news !== undefined) this.#publish(news);
    }
  }

  #publish(status: ModelStatus): void {
    this.#works.delete(status.name);
    this.#published++;
    this.#ports.store.put(BUCKET.profiles, status.name, toJson(status), (result) => {
      if (!isStoreFailure(result)) return;
      this.#station.log.warn(
        { model: status.name, failure: result.failure },
        "a profile can't be stored; it is tried again",
      );
      const model = this.#catalog.get(status.name);
      if (model !== undefined) this.#onModel(model);
    });
  }
}
