/**
 * The executor: loads models and runs granted batches, one at a time per accelerator. It pulls their inputs, and pushes
 * the outputs straight to the ingresses.
 *
 *   X1. A batch is accepted once, by the fence; an accepted batch runs (T4, T5).
 *   X2. Inputs of the next batch are pulled while the current one runs.
 *   X3. Every accepted batch is reported done exactly once, whether or not its rows ran; or this executor says goodbye
 *       and ends.
 *   X4. An engine that hangs or reports a fault ends this executor: first the goodbye, then the record of the fault,
 *       then the end of the process.
 */
import type { Stop } from "@tutti/ports/clock";
import type { Engine } from "@tutti/ports/engine";
import { DEFAULT_SUB_CLUSTER, MEMORY_UNBOUNDED, ProfileMeasured, ProfileWanted } from "@tutti/protocol";
import { type ActorKey, type GpuId, type Instant, after, millis, seconds } from "@tutti/units";
import { type CatalogModel, type Actor, Catalog, ActorRuntime } from "@tutti/actors/runtime";
import { IsolatedRuns } from "./measurement/isolated-runs.ts";
import { BatchIntake } from "./batches/batch-intake.ts";
import { BatchRunner } from "./batches/batch-runner.ts";
import { executorFigures } from "./reports/executor-figures.ts";
import { ExecutorReports } from "./reports/executor-reports.ts";
import type { ExecutorConfig, ExecutorPorts } from "./executor-ports.ts";
import { Fence } from "./batches/fence.ts";
import { GpuSlot } from "./batches/gpu-slot.ts";
import { StandbyGate } from "./batches/standby-gate.ts";
import { RankerLink } from "./batches/ranker-link.ts";
import { ModelLoader } from "./models/model-loader.ts";
import { Prober } from "./measurement/prober.ts";
import { ModelResidency } from "./models/model-residency.ts";
import type { Run } from "./batches/run.ts";
import { SampleRows } from "./measurement/sample-rows.ts";
import { ShadowRuns } from "./measurement/shadow-runs.ts";
import { ModelFaultLog } from "./models/model-fault-log.ts";
import { type EngineDeath, WatchedEngine, loadLimitOf, runLimitFor, tooSlowReason } from "./batches/watched-engine.ts";

export type { ExecutorConfig, ExecutorPorts, LastRun } from "./executor-ports.ts";

/**
 * How long a drain waits for granted batches. Grants are valid for four times d_ctrl, and their batches may be under
 * way as long again.
 */
const LINGER_FOR = millis(250);
/** How long a model that has left its sub-cluster is kept. Candidates and grants of it are under way for a while. */
const KEPT_FOR = seconds(1);
/**
 * Enough for 2.5 samples a second of requests of 20 ms. A request that comes during such a run waits, one in twenty at
 * most.
 */
const ALONE_SHARE = 0.05;
/** Accepted batches per accelerator: the running one, and enough that none waits for its inputs. */
const ACCEPTED_MOST = 4;
/** Time for a goodbye and for recording the fault. */
const LAST_WORDS = millis(500);

export function createExecutor(ports: ExecutorPorts, config: ExecutorConfig, ready: () => void): Actor {
  return new Executor(ports, config, ready);
}

class Executor implements Actor {
  readonly role = "executor" as const;
  readonly key: ActorKey;
  readonly #ports: ExecutorPorts;
  readonly #config: ExecutorConfig;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #loader: ModelLoader;
  readonly #prober: Prober;
  readonly #samples: SampleRows;
  readonly #rankerLink: RankerLink;
  readonly #residency: ModelResidency;
  readonly #fence: Fence;
  readonly #slots = new Map<GpuId, GpuSlot>();
  readonly #isolatedRuns: IsolatedRuns;
  readonly #shadows: ShadowRuns;
  readonly #runner: BatchRunner;
  readonly #intake: BatchIntake;
  readonly #faultLog: ModelFaultLog;
  readonly #reporting: Stop;
  readonly #reports: ExecutorReports;
  #standbyGate: StandbyGate | undefined;
  /** The ranker grants nothing during an incomplete start, a load or a drain. */
  #starting = true;
  #loading = false;
  #draining: "no" | "lingering" | "done" = "no";
  #drained: (() => void) | undefined;
  #dead = false;

  constructor(ports: ExecutorPorts, config: ExecutorConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#fence = new Fence(
      config.key,
      ports.engines.map(({ gpu }) => gpu),
    );
    this.#runtime = new ActorRuntime(ports, config, {
      role: "executor",
      listensTo: ["ingress", "ranker"],
      beat: () => ({ gpus: this.#rankerLink.states(), takesJobs: true }),
      stats: () => this.#stats(),
      onBeat: (peer) => this.#rankerLink.hearBeat(peer),
      onLost: (peer) => peer.role === "ingress" && ports.data.forget(peer.key),
    });
    for (const { gpu, engine } of ports.engines) this.#slots.set(gpu, new GpuSlot(gpu, this.#watched(gpu, engine)));
    this.#rankerLink = new RankerLink({
      self: config.key,
      runtime: this.#runtime,
      store: ports.store,
      clock: ports.clock,
      fence: this.#fence,
      slots: this.#slots,
      subCluster: config.subCluster ?? DEFAULT_SUB_CLUSTER,
      serving: () => this.#serving,
    });
    this.#faultLog = new ModelFaultLog({ store: ports.store, clock: ports.clock, log: this.#runtime.log });
    this.#samples = new SampleRows(ports.store, this.#runtime.log);
    this.#loader = new ModelLoader({
      store: ports.store,
      clock: ports.clock,
      engines: [...this.#slots.values()].map(({ engine }) => engine),
      log: this.#runtime.log,
      samples: this.#samples,
      report: (report) => this.#reports.model(report),
      onBusy: (busy) => this.#onLoading(busy),
    });
    this.#reports = this.#createReports();
    this.#prober = this.#createProber();
    this.#isolatedRuns = this.#createIsolatedRuns();
    this.#shadows = this.#createShadowRuns();
    this.#runner = new BatchRunner({
      self: config.key,
      clock: ports.clock,
      data: ports.data,
      tracer: ports.telemetry.tracer,
      runtime: this.#runtime,
      ...{ isolatedRuns: this.#isolatedRuns, shadows: this.#shadows },
      onFreeAt: (slot, freeAt) => this.#rankerLink.tellFree(slot, freeAt),
      onRan: (run, startedAt) => this.#onRan(run, startedAt),
      onIdle: () => this.#endIfDrained(),
    });
    this.#catalog = new Catalog(ports.store, this.#runtime.log, {
      onChange: (model) => this.#onModel(model),
      onGone: (model) => this.#residency.onGone(model),
    });
    this.#residency = this.#createModelResidency();
    this.#intake = this.#createIntake();
    this.#listen();
    this.#reporting = ports.clock.every(seconds(1), () => {
      this.#reports.unready();
      this.#checkTerms();
      this.#reports.inventory();
      this.#runner.tellObserved();
      this.#isolatedRuns.tell();
      this.#loader.retry();
    });
    // Record the faults of predecessors before loading anything: one of the models may end this executor too.
    this.#faultLog.confess(ports.lastRuns ?? [], config.host, () => this.#open(ready));
  }

  #open(ready: () => void): void {
    this.#residency.open(() =>
      this.#catalog.open(() => {
        this.#runtime.open();
        this.#shadows.open();
        for (const { spec } of this.#catalog.models()) this.#samples.want(spec);
        this.#residency.begin();
        this.#loader.whenIdle(() => {
          this.#starting = false;
          this.#reports.open();
          this.#standbyGate = this.#createGate(ready);
          this.#rankerLink.open();
          this.#reports.inventory();
          if (this.#standbyGate === undefined) this.#ports.bus.flush(() => ready());
          else this.#standbyGate.look();
        });
      }),
    );
  }

  #createGate(ready: () => void): StandbyGate | undefined {
    const { held, bus, engines } = this.#ports;
    if (held === undefined) return undefined;
    const standbyGate = new StandbyGate({
      clock: this.#ports.clock,
      couldServe: () => this.#couldServe,
      statuses: () => this.#loader.loaded().map(({ spec }) => this.#catalog.get(spec.name)?.status),
      engineType: engines[0]?.engine.type ?? "none",
      onLoaded: () => bus.flush(() => ready()),
      onReleased: () => this.#rankerLink.changed(),
    });
    held(() => standbyGate.release());
    return standbyGate;
  }

  #createReports(): ExecutorReports {
    return new ExecutorReports({
      ...{ self: this.key, runtime: this.#runtime, catalog: () => this.#catalog, loader: this.#loader },
      ...{ slots: this.#slots, rankerLink: this.#rankerLink, memoryBytesMax: this.#config.memoryBytesMax },
      engineType: this.#ports.engines[0]?.engine.type ?? "none",
    });
  }

  #createIntake(): BatchIntake {
    return new BatchIntake({
      ...{ self: this.key, runtime: this.#runtime, clock: this.#ports.clock, data: this.#ports.data },
      ...{ catalog: this.#catalog, loader: this.#loader, runner: this.#runner },
      ...{ slots: this.#slots, fence: this.#fence, rankerLink: this.#rankerLink },
      acceptedMax: this.#config.acceptedMax ?? ACCEPTED_MOST,
      isProbing: (slot) => this.#prober.waitsFor(slot),
    });
  }

  #createProber(): Prober {
    return new Prober({
      clock: this.#ports.clock,
      specOf: (name) => this.#loader.get(name)?.spec,
      samplesOf: (name, bucket) => this.#samples.rows(name, bucket),
      done: (measured) => this.#runtime.broadcast("profiler", ProfileMeasured, { ...measured, executor: this.key }),
      onOccupied: (slot, freeAt) => this.#rankerLink.tellOccupied(slot, freeAt),
    });
  }

  #createModelResidency(): ModelResidency {
    const { clock, store, engines } = this.#ports;
    const { subCluster, memoryBytesMax, lingerFor, keptFor } = this.#config;
    return new ModelResidency({
      clock,
      store,
      log: this.#runtime.log,
      catalog: () => this.#catalog,
      loader: this.#loader,
      rankerLink: this.#rankerLink,
      gpus: engines.map(({ gpu }) => gpu),
      home: subCluster ?? DEFAULT_SUB_CLUSTER,
      memoryBytesMax: memoryBytesMax ?? MEMORY_UNBOUNDED,
      accepted: (modelNumber) => this.#runner.acceptedOf(modelNumber),
      lingerFor: lingerFor ?? LINGER_FOR,
      keptFor: keptFor ?? KEPT_FOR,
      onChange: () => {
        this.#rankerLink.changed();
        this.#reports.inventory();
        this.#standbyGate?.look();
      },
    });
  }

  #createIsolatedRuns(): IsolatedRuns {
    return new IsolatedRuns({
      self: this.key,
      runtime: this.#runtime,
      clock: this.#ports.clock,
      leader: () => this.#rankerLink.leader,
      slots: this.#slots,
      sequence: (gpu) => this.#fence.sequence(gpu),
      modelOf: (thread) => {
        const model = this.#catalog.ofThread(thread);
        return model === undefined || this.#loader.get(model.spec.name) === undefined ? undefined : model;
      },
      mayAsk: () => this.#serving,
      share: this.#config.aloneShare ?? ALONE_SHARE,
      onOccupied: (slot, freeAt) => this.#rankerLink.tellOccupied(slot, freeAt),
    });
  }

  #createShadowRuns(): ShadowRuns {
    return new ShadowRuns({
      ...{ store: this.#ports.store, log: this.#runtime.log, catalog: () => this.#catalog },
      isLoaded: ({ spec }) => this.#loader.get(spec.name)?.spec.number === spec.number,
      now: () => this.#now(),
      shelve: (row) => this.#isolatedRuns.shelveCopy(row),
    });
  }

  #stats(): ReturnType<typeof executorFigures> {
    const [models, more] = [this.#loader.reports().length, this.#isolatedRuns.figures()];
    const threads = [...this.#runner.computed.perThread(), ...this.#shadows.perThread()];
    return executorFigures(this.#slots.values(), models, this.#fence.epoch, more, threads);
  }

  #watched(gpu: GpuId, engine: Engine): WatchedEngine {
    return new WatchedEngine(engine, {
      gpu,
      clock: this.#ports.clock,
      loadLimit: (spec) => loadLimitOf(spec, engine.type),
      runLimit: (batch) => runLimitFor(this.#catalog.get(batch.model), batch, engine.type),
      onDead: (death) => this.#onDead(death),
    });
  }

  drain(done: () => void): void {
    this.#draining = "lingering";
    this.#prober.stop();
    this.#isolatedRuns.stop();
    this.#residency.stop();
    this.#runtime.beat(); // The ranker grants us nothing more; batches granted before still come, and run (T9).
    this.#drained = () => {
      this.#drained = undefined;
      let left = this.#slots.size;
      const stopped = (): void => {
        left--;
        if (left === 0) this.#ports.data.close(() => this.#stop(done));
      };
      for (const slot of this.#slots.values()) slot.engine.stop(stopped);
    };
    const lingering = this.#ports.clock.alarm(() => {
      if (this.#draining === "lingering") this.#draining = "done";
      this.#intake.close();
      this.#endIfDrained();
    });
    lingering.set(after(this.#now(), this.#config.lingerFor ?? LINGER_FOR));
  }
  #endIfDrained(): void {
    if (this.#draining === "done" && this.#runner.size === 0) this.#drained?.();
  }
  #stop(done: () => void): void {
    this.#reporting.stop();
    this.#shadows.close();
    this.#catalog.close();
    this.#runtime.close(done);
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }
  get #couldServe(): boolean {
    return !this.#starting && !this.#loading && this.#residency.serves && this.#draining === "no";
  }
  get #serving(): boolean {
    return this.#couldServe && this.#standbyGate?.isHeld !== true;
  }

  #listen(): void {
    this.#runtime.onPacked(ProfileWanted, (wanted) => {
      const slot = this.#slots.get(wanted.gpu);
      if (slot !== undefined && this.#draining === "no") this.#prober.want(wanted, slot);
    });
  }

  #onRan({ model: { spec } }: Run, startedAt: Instant): void {
    const { faults } = this.#catalog.get(spec.name) ?? {};
    if (faults?.number === spec.number && faults.strikes.length > 0) this.#faultLog.clear(spec, startedAt);
  }

  #onLoading(loading: boolean): void {
    if (this.#loading === loading) return;
    this.#loading = loading;
    if (!loading) this.#residency.onIdle();
    this.#rankerLink.changed();
    if (!loading) this.#reports.inventory();
    this.#standbyGate?.look();
  }

  #onModel(model: CatalogModel): void {
    if (this.#catalog.ready) {
      this.#samples.want(model.spec);
      this.#residency.onModel(model);
    }
    if (model.lease !== undefined) this.#fence.raiseTerm(model.spec.number, model.lease.term);
    this.#standbyGate?.look();
  }

  #checkTerms(): void {
    for (const { spec, lease } of this.#catalog.models())
      if (lease !== undefined) this.#fence.checkTerm(spec.number, lease.term);
  }

  /**
   * Ends the executor after the death of an engine. The goodbye comes first, so that accepted batches run elsewhere at
   * once; then the fault is recorded.
   */
  #onDead(death: EngineDeath): void {
    if (this.#dead) return;
    const { gpu, model: name, doing, startedAt, how, reason } = death;
    this.#dead = true;
    this.#reports.close();
    this.#draining = "done";
    this.#intake.close();
    this.#runner.abandon();
    this.#runtime.log.error({ model: name, gpu, doing, how, reason }, "the engine is unusable; this executor ends");
    const model = this.#catalog.get(name);
    let left = 2;
    let ended = false;
    const end = (): void => {
      if (ended) return;
      ended = true;
      this.#ports.onFault(reason);
    };
    const ready = (): void => void (--left === 0 && end());
    this.#ports.clock.alarm(end).set(after(this.#now(), LAST_WORDS));
    this.#prober.stop();
    this.#isolatedRuns.stop();
    this.#stop(ready);
    const strike = { executor: this.key, host: this.#config.host, gpu, doing, how, startedAt };
    if (model === undefined) ready();
    else this.#faultLog.record(model.spec, strike, ready, tooSlowReason(death, model));
  }
}
