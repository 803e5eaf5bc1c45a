/**
 * The executor: loads models, pulls the inputs of granted batches, runs them one at a time per accelerator, pushes outputs straight to the ingresses.
 *
 *   X1. A batch is accepted once, by the fence; an accepted batch runs (T4, T5).
 *   X2. Inputs of the next batch are pulled while the current one runs.
 *   X3. Every accepted batch is reported done exactly once, whatever became of its rows; or this executor says goodbye and ends.
 *   X4. An engine that hangs or reports a fault ends this executor: goodbye first, then whose fault it was, then the process.
 */
import type { Stop } from "@tutti/clock";
import type { Engine } from "@tutti/engine";
import {
  BATCH_REFUSALS,
  BatchAsked,
  BatchDispatched,
  type BatchRefusal,
  BatchRefused,
  GpuAsked,
  GpuFreed,
  GpuJoined,
  type GpuState,
  type ModelSpec,
  ModelReported,
  ProfileMeasured,
  ProfileWanted,
  type Strike,
} from "@tutti/protocol";
import type { DataClient } from "@tutti/pull";
import { type ActorKey, type GpuId, type Instant, type Micros, after, bucketOf, millis, seconds } from "@tutti/units";
import { Catalog, type CatalogModel } from "../catalog.ts";
import { LeaderWatch } from "../leader.ts";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { Station } from "../station.ts";
import { wellFormed } from "../well-formed.ts";
import { BatchRunner } from "./batch-runner.ts";
import { executorFigures } from "./executor-figures.ts";
import { Fence } from "./fence.ts";
import { GpuDesk } from "./gpu-desk.ts";
import { ModelKeeper, type ModelReport } from "./model-keeper.ts";
import { Prober } from "./prober.ts";
import type { Run } from "./run.ts";
import { SampleRows } from "./sample-rows.ts";
import { StrikeBook } from "./strike-book.ts";
import { type EngineDeath, WatchedEngine, loadLimitOf, runLimitOf } from "./watched-engine.ts";

export interface ExecutorConfig extends ActorConfig {
  /** Accepted and unfinished batches per accelerator; a ranker that knows our free time never needs more than two. */
  readonly acceptedMax?: number;
  /** How long a drain waits for batches whose grants were on the way when it began. Default: 250 ms. */
  readonly lingerFor?: Micros;
}
export interface ExecutorPorts extends ActorPorts {
  readonly data: DataClient;
  readonly engines: readonly { readonly gpu: GpuId; readonly engine: Engine }[];
  /** The engine is unusable: the process must end, and be started again. */
  readonly onFault: (reason: string) => void;
  /** What earlier processes of these accelerators were doing when they ended without a word. */
  readonly lastRuns?: readonly LastRun[];
}

/** A run or load in which a process ended that could not say so any more. */
export interface LastRun extends Omit<Strike, "at" | "host"> {
  readonly model: Pick<ModelSpec, "name" | "number">;
  /** It is written down. */
  readonly forget: () => void;
}

/** Grants are valid for four times d_ctrl, and their batches are on their way as long again. */
const LINGER_FOR = millis(250);
/** For a goodbye and for writing down why. */
const LAST_WORDS = millis(500);

export function createExecutor(ports: ExecutorPorts, config: ExecutorConfig, ready: () => void): Actor {
  return new Executor(ports, config, ready);
}

class Executor implements Actor {
  readonly role = "executor" as const;
  readonly key: ActorKey;
  readonly #ports: ExecutorPorts;
  readonly #config: ExecutorConfig;
  readonly #station: Station;
  readonly #catalog: Catalog;
  readonly #keeper: ModelKeeper;
  readonly #prober: Prober;
  readonly #samples: SampleRows;
  readonly #leader: LeaderWatch;
  readonly #fence: Fence;
  readonly #desks = new Map<GpuId, GpuDesk>();
  readonly #runner: BatchRunner;
  readonly #strikes: StrikeBook;
  readonly #reporting: Stop;
  /** Loads in progress, a ready model that can't be loaded, a start that is not complete, or a drain: the ranker grants us nothing. */
  #starting = true;
  #loading = false;
  #lacks = false;
  #draining: "no" | "lingering" | "done" = "no";
  #drained: (() => void) | undefined;
  #dead = false;

  constructor(ports: ExecutorPorts, config: ExecutorConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#fence = new Fence(config.key);
    this.#station = new Station(ports, config, {
      role: "executor",
      listensTo: ["ingress", "ranker"],
      beat: () => ({ gpus: this.#states() }),
      stats: () => executorFigures(this.#desks.values(), this.#keeper.reports().length, this.#fence.epoch),
      onBeat: (peer) => this.#leader.hearBeat(peer),
      onLost: (peer) => peer.role === "ingress" && ports.data.forget(peer.key),
    });
    for (const { gpu, engine } of ports.engines) this.#desks.set(gpu, new GpuDesk(gpu, this.#watched(gpu, engine)));
    this.#leader = new LeaderWatch(this.#station, ({ epoch }) => {
      this.#fence.raise(epoch);
      this.#join();
    });
    this.#strikes = new StrikeBook({ store: ports.store, clock: ports.clock, log: this.#station.log });
    this.#samples = new SampleRows(ports.store, this.#station.log);
    this.#keeper = new ModelKeeper({
      store: ports.store,
      clock: ports.clock,
      engines: [...this.#desks.values()].map(({ engine }) => engine),
      log: this.#station.log,
      samplesOf: (name, bucket) => this.#samples.rows(name, bucket),
      report: (report) => this.#report(report),
      onBusy: (busy) => this.#onLoading(busy),
    });
    this.#prober = new Prober({
      clock: ports.clock,
      specOf: (name) => this.#keeper.get(name)?.spec,
      samplesOf: (name, bucket) => this.#samples.rows(name, bucket),
      done: (measured) => this.#station.broadcast("profiler", ProfileMeasured, { ...measured, executor: this.key }),
      onOccupied: (desk, freeAt) => this.#tellFree(desk, freeAt),
    });
    this.#runner = new BatchRunner({
      self: config.key,
      clock: ports.clock,
      data: ports.data,
      tracer: ports.telemetry.tracer,
      station: this.#station,
      onFreeAt: (desk, freeAt) => this.#tellFree(desk, freeAt),
      onRan: (run, startedAt) => this.#onRan(run, startedAt),
      onIdle: () => this.#endIfDrained(),
    });
    this.#catalog = new Catalog(ports.store, this.#station.log, {
      onChange: (model) => {
        if (this.#catalog.ready) this.#onModel(model);
        if (model.lease !== undefined)
          for (let bucket = 0; bucket < model.spec.buckets.length; bucket++)
            this.#raiseTerm(model.spec, bucket, model.lease.term);
      },
      onGone: (model) => this.#keeper.drop(model.spec.name),
    });
    this.#listen();
    this.#reporting = ports.clock.every(seconds(1), () => {
      this.#reportUnready();
      this.#runner.tellObserved();
      this.#keeper.retry();
    });
    this.#confess(ports.lastRuns ?? [], () => this.#open(ready));
  }

  #open(ready: () => void): void {
    this.#catalog.open(() => {
      this.#station.open();
      for (const model of this.#catalog.models()) this.#onModel(model);
      this.#keeper.whenIdle(() => {
        this.#starting = false;
        this.#join();
        this.#ports.bus.flush(() => ready());
      });
    });
  }

  #watched(gpu: GpuId, engine: Engine): WatchedEngine {
    return new WatchedEngine(engine, {
      gpu,
      clock: this.#ports.clock,
      loadLimit: loadLimitOf,
      runLimit: ({ model: name, bucket, batchSize }) => {
        const model = this.#catalog.get(name);
        return runLimitOf(model?.spec.runDeadline, model?.status?.profiles[bucket] ?? [], batchSize);
      },
      onDead: (death) => this.#onDead(death),
    });
  }

  drain(done: () => void): void {
    this.#draining = "lingering";
    this.#prober.stop();
    this.#station.beat(); // The ranker grants us nothing more; what it has granted still comes, and runs (T9).
    this.#drained = () => {
      this.#drained = undefined;
      let left = this.#desks.size;
      const stopped = (): void => {
        left--;
        if (left === 0) this.#ports.data.close(() => this.#stop(done));
      };
      for (const desk of this.#desks.values()) desk.engine.stop(stopped);
    };
    const lingering = this.#ports.clock.alarm(() => {
      if (this.#draining === "lingering") this.#draining = "done";
      this.#endIfDrained();
    });
    lingering.set(after(this.#now(), this.#config.lingerFor ?? LINGER_FOR));
  }
  #endIfDrained(): void {
    if (this.#draining === "done" && this.#runner.size === 0) this.#drained?.();
  }
  #stop(done: () => void): void {
    this.#reporting.stop();
    this.#catalog.close();
    this.#station.close(done);
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }
  get #serving(): boolean {
    return !this.#starting && !this.#loading && !this.#lacks && this.#draining === "no";
  }

  #listen(): void {
    const { reader } = this.#station;
    reader.on(BatchDispatched, (batch, sender) => this.#onBatch(batch, sender));
    reader.on(BatchAsked, ({ batchId, thread, gpu }, sender) => {
      // Unknown: refused, lost, or finished with the report lost. Putting its requests back is right for the first two and harmless for the third.
      if (!this.#runner.has(sender, batchId)) this.#refuse({ batchId, thread, gpu }, "expired", sender);
    });
    reader.on(GpuAsked, ({ gpu, epoch, grantSeq }, sender) => {
      const desk = this.#desks.get(gpu);
      if (desk === undefined || epoch < this.#fence.epoch) return;
      this.#fence.raise(epoch);
      // The ranker gives the accelerator away again on the strength of this answer, so a batch of the grant that it asks about comes too late.
      this.#fence.raiseSequence(gpu, grantSeq);
      const freeAt = desk.freeAt(this.#now());
      this.#station.send(sender, GpuFreed, {
        gpu,
        executor: this.key,
        epoch,
        grantSeq: this.#fence.sequence(gpu),
        freeAt,
      });
    });
    this.#station.onPacked(ProfileWanted, wellFormed.profileWanted, (wanted) => {
      const desk = this.#desks.get(wanted.gpu);
      if (desk !== undefined && this.#draining === "no") this.#prober.want(wanted, desk);
    });
  }

  #onRan({ model: { spec } }: Run, startedAt: Instant): void {
    const { faults } = this.#catalog.get(spec.name) ?? {};
    if (faults?.number === spec.number && faults.strikes.length > 0) this.#strikes.clear(spec, startedAt);
  }

  #raiseTerm(spec: ModelSpec, bucket: number, term: number): void {
    this.#fence.raiseTerm((spec.number * 64 + bucket) as BatchDispatched["thread"], term);
  }

  #onBatch(batch: BatchDispatched, sender: ActorKey): void {
    const now = this.#now();
    const desk = this.#desks.get(batch.gpu);
    const model = this.#catalog.ofThread(batch.thread);
    const loaded = model === undefined ? undefined : this.#keeper.get(model.spec.name);
    if (desk === undefined) return this.#refuse(batch, "wrong-incarnation", sender);
    if (this.#draining === "done") return this.#turnAway(batch, desk, "draining", sender);
    if (this.#runner.has(sender, batch.batchId)) return; // Repeated on the way.
    // Also for another version of it, with other buckets or smaller batches.
    if (loaded === undefined || !fits(batch, loaded.spec))
      return this.#turnAway(batch, desk, "model-not-loaded", sender);
    if (desk.accepted >= (this.#config.acceptedMax ?? 4)) return this.#turnAway(batch, desk, "full", sender);
    const refusal = this.#fence.admit(batch, now);
    if (refusal !== undefined) return this.#turnAway(batch, desk, refusal, sender);
    this.#runner.accept(batch, sender, desk, loaded);
  }

  /** Refuses a batch whose grant is used up by that: the ranker counts on the time that it would have taken. */
  #turnAway(batch: BatchDispatched, desk: GpuDesk, reason: BatchRefusal, to: ActorKey): void {
    desk.refusedBatches++;
    this.#refuse(batch, reason, to);
    if (batch.executor !== this.key || batch.epoch < this.#fence.epoch) return;
    if (batch.grantSeq <= this.#fence.sequence(batch.gpu)) return;
    this.#fence.raiseSequence(batch.gpu, batch.grantSeq);
    this.#tellFree(desk, desk.freeAt(this.#now()));
  }

  #refuse(batch: Pick<BatchDispatched, "batchId" | "thread" | "gpu">, reason: BatchRefusal, to: ActorKey): void {
    const { batchId, thread, gpu } = batch;
    this.#station.send(to, BatchRefused, { batchId, thread, gpu, reason: BATCH_REFUSALS.indexOf(reason) });
  }

  #tellFree(desk: GpuDesk, freeAt: Instant): void {
    const leader = this.#leader.leader;
    if (leader === undefined || !this.#serving) return;
    this.#station.send(leader.key, GpuFreed, {
      gpu: desk.gpu,
      executor: this.key,
      epoch: leader.epoch,
      grantSeq: this.#fence.sequence(desk.gpu),
      freeAt,
    });
  }

  #join(): void {
    const leader = this.#leader.leader;
    if (leader !== undefined)
      this.#station.send(leader.key, GpuJoined, { executor: this.key, epoch: leader.epoch, gpus: this.#states() });
  }

  #onLoading(loading: boolean): void {
    if (this.#loading === loading) return;
    this.#loading = loading;
    this.#lacks = this.#lacksModels();
    if (!this.#starting) this.#join();
  }

  /** Any accelerator may be granted to any model that is ready (docs/algorithms.md, A4), so one that lacks a model is not granted anything. */
  #lacksModels(): boolean {
    for (const { spec, status } of this.#catalog.models())
      if (status?.state === "ready" && this.#keeper.get(spec.name) === undefined) return true;
    return false;
  }

  #onModel(model: CatalogModel): void {
    this.#samples.want(model.spec);
    if (model.status?.state === "quarantined") this.#keeper.drop(model.spec.name);
    else this.#keeper.want(model);
    const lacked = this.#lacks;
    this.#lacks = this.#lacksModels();
    if (lacked !== this.#lacks && !this.#starting) this.#join();
  }

  /** What earlier incarnations did not live to tell is written down before anything is loaded: one of the models may end this one too. */
  #confess(left: readonly LastRun[], then: () => void): void {
    const [last, ...rest] = left;
    if (last === undefined) return then();
    const { model, executor, gpu, doing, how, startedAt } = last;
    const strike = { executor, host: this.#config.host, gpu, doing, how, startedAt };
    this.#strikes.record(model, strike, () => {
      last.forget();
      this.#confess(rest, then);
    });
  }

  /** The goodbye comes first, so that what was accepted runs elsewhere at once; then it is written down whose fault it was. */
  #onDead({ gpu, model: name, doing, startedAt, how, reason }: EngineDeath): void {
    if (this.#dead) return;
    this.#dead = true;
    this.#draining = "done";
    this.#runner.abandon();
    this.#station.log.error({ model: name, gpu, doing, how, reason }, "the engine is unusable; this executor ends");
    const model = this.#catalog.get(name)?.spec;
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
    this.#stop(ready);
    const strike = { executor: this.key, host: this.#config.host, gpu, doing, how, startedAt };
    if (model === undefined) ready();
    else this.#strikes.record(model, strike, ready);
  }

  #states(): GpuState[] {
    const now = this.#now();
    return [...this.#desks.values()].map((desk) => ({
      gpu: desk.gpu,
      freeAt: desk.freeAt(now),
      epoch: this.#fence.epoch,
      grantSeq: this.#fence.sequence(desk.gpu),
      serving: this.#serving,
      type: desk.engine.type,
    }));
  }

  #report(report: ModelReport): void {
    const type = this.#ports.engines[0]?.engine.type ?? "none";
    this.#station.broadcast("profiler", ModelReported, {
      ...report,
      executor: this.key,
      gpus: [...this.#desks.keys()],
      type,
    });
  }
  /** A profiler that started after us, or missed a report, hears it again until it has made up its mind. */
  #reportUnready(): void {
    for (const report of this.#keeper.reports()) {
      const state = this.#catalog.get(report.model)?.status?.state;
      const isDecided = state === "refused" || state === "failed" || state === "quarantined";
      if (!isDecided && (state !== "ready" || report.state === "failed")) this.#report(report);
    }
  }
}

const fits = ({ thread, ingresses, requests }: BatchDispatched, spec: ModelSpec): boolean =>
  bucketOf(thread) < spec.buckets.length &&
  requests.length <= spec.batchSizeMax &&
  requests.length === ingresses.reduce((sum, { count }) => sum + count, 0);
