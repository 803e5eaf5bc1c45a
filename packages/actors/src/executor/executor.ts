/**
 * The executor: loads models, pulls the inputs of granted batches, runs them one at a time per accelerator, pushes outputs straight to the ingresses.
 *
 *   X1. A batch is accepted once, by the fence; an accepted batch runs (T4, T5).
 *   X2. Inputs of the next batch are pulled while the current one runs.
 *   X3. Every accepted batch is reported done exactly once, whatever became of its rows.
 */
import type { Engine, RunOutcome } from "@tutti/engine";
import {
  BATCH_REFUSALS,
  BatchAsked,
  BatchDispatched,
  BatchFinished,
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
} from "@tutti/protocol";
import type { DataClient } from "@tutti/pull";
import {
  type ActorKey,
  type BatchId,
  type GpuId,
  type Instant,
  type Micros,
  after,
  before,
  bucketOf,
  later,
  micros,
  millis,
  seconds,
} from "@tutti/units";
import type { Stop } from "@tutti/clock";
import { Catalog } from "../catalog.ts";
import { LeaderWatch } from "../leader.ts";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { Station } from "../station.ts";
import { wellFormed } from "../well-formed.ts";
import { traceBatch } from "./batch-spans.ts";
import { Fence } from "./fence.ts";
import { GpuDesk } from "./gpu-desk.ts";
import { ModelKeeper } from "./model-keeper.ts";
import { Prober } from "./prober.ts";
import { Run } from "./run.ts";
import { SampleRows } from "./sample-rows.ts";

export interface ExecutorConfig extends ActorConfig {
  /** Accepted and unfinished batches per accelerator; a ranker that knows our free time never needs more than two. */
  readonly acceptedMax?: number;
}
export interface ExecutorPorts extends ActorPorts {
  readonly data: DataClient;
  readonly engines: readonly { readonly gpu: GpuId; readonly engine: Engine }[];
  /** The engine is unusable: the process must end, and be started again. */
  readonly onFault: (reason: string) => void;
}

/** How long an ingress may be late with its rows before a batch that is due starts without them. */
const PULL_GRACE = millis(2);

export function createExecutor(ports: ExecutorPorts, config: ExecutorConfig, ready: () => void): Actor {
  return new Executor(ports, config, ready);
}

/** Finished batches that wait to be told to the profiler; beyond, the second's rest is not observed. */
const OBSERVED_MAX = 4_096;

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
  /** By batcher and batch: each batcher counts its own. */
  readonly #runs = new Map<string, Run>();
  readonly #reporting: Stop;
  readonly #observed: BatchFinished[] = [];
  /** Loads in progress, a start that is not complete, or a drain: the ranker grants us nothing. */
  #starting = true;
  #loading = false;
  #draining = false;
  #drained: (() => void) | undefined;

  constructor(ports: ExecutorPorts, config: ExecutorConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#fence = new Fence(config.key);
    for (const { gpu, engine } of ports.engines) this.#desks.set(gpu, new GpuDesk(gpu, engine));
    this.#station = new Station(ports, config, {
      role: "executor",
      listensTo: ["ingress", "ranker"],
      beat: () => ({ gpus: this.#states() }),
      stats: () => this.#stats(),
      onBeat: (peer) => this.#leader.hearBeat(peer),
      onLost: (peer) => peer.role === "ingress" && ports.data.forget(peer.key),
    });
    this.#leader = new LeaderWatch(this.#station, ({ epoch }) => {
      this.#fence.raise(epoch);
      this.#join();
    });
    this.#samples = new SampleRows(ports.store, this.#station.log);
    this.#keeper = new ModelKeeper({
      store: ports.store,
      engines: ports.engines.map(({ engine }) => engine),
      log: this.#station.log,
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
    this.#catalog = new Catalog(ports.store, this.#station.log, {
      onChange: (model) => {
        this.#samples.want(model.spec);
        this.#keeper.want(model);
        if (model.lease !== undefined)
          for (let bucket = 0; bucket < model.spec.buckets.length; bucket++)
            this.#raiseTerm(model.spec, bucket, model.lease.term);
      },
      onGone: (model) => this.#keeper.drop(model.spec.name),
    });
    this.#listen();
    this.#reporting = ports.clock.every(seconds(1), () => {
      this.#reportUnready();
      this.#tellObserved();
    });
    this.#catalog.open(() => {
      this.#station.open();
      this.#keeper.whenIdle(() => {
        this.#starting = false;
        this.#join();
        this.#ports.bus.flush(() => ready());
      });
    });
  }

  drain(done: () => void): void {
    this.#draining = true;
    this.#prober.stop();
    this.#station.beat(); // The ranker grants us nothing more.
    this.#drained = () => {
      this.#drained = undefined;
      this.#reporting.stop();
      this.#catalog.close();
      let left = this.#desks.size;
      const stopped = (): void => {
        left--;
        if (left === 0) this.#ports.data.close(() => this.#station.close(done));
      };
      for (const desk of this.#desks.values()) desk.engine.stop(stopped);
    };
    if (this.#runs.size === 0) this.#drained();
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }
  get #serving(): boolean {
    return !this.#starting && !this.#loading && !this.#draining;
  }

  #listen(): void {
    const { reader } = this.#station;
    reader.on(BatchDispatched, (batch, sender) => this.#onBatch(batch, sender));
    reader.on(BatchAsked, ({ batchId, thread, gpu }, sender) => {
      // Unknown: refused, lost, or finished with the report lost. Putting its requests back is right for the first two and harmless for the third.
      if (!this.#runs.has(runKey(sender, batchId))) this.#refuse({ batchId, thread, gpu }, "expired", sender);
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
      if (desk !== undefined && !this.#draining) this.#prober.want(wanted, desk);
    });
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
    if (this.#draining) return this.#turnAway(batch, desk, "draining", sender);
    if (this.#runs.has(runKey(sender, batch.batchId))) return; // Repeated on the way.
    // Also for another version of it, with other buckets or smaller batches.
    if (loaded === undefined || !fits(batch, loaded.spec))
      return this.#turnAway(batch, desk, "model-not-loaded", sender);
    if (desk.accepted >= (this.#config.acceptedMax ?? 4)) return this.#turnAway(batch, desk, "full", sender);
    const refusal = this.#fence.admit(batch, now);
    if (refusal !== undefined) return this.#turnAway(batch, desk, refusal, sender);
    const run = new Run({ batch, batcher: sender, desk, model: loaded, at: now });
    this.#runs.set(runKey(sender, batch.batchId), run);
    const news = desk.accept(batch.startAt, batch.expectedRun, now);
    if (news !== undefined) this.#tellFree(desk, news);
    this.#pull(run);
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

  /** X2: all ingresses at once; whoever does not answer in time costs only its own rows. */
  #pull(run: Run): void {
    const { batch } = run;
    const timeoutMs = Math.max(20, Math.ceil((batch.latest - run.receivedAt) / 1000) + 20);
    if (run.waiting === 0) return this.#start(run);
    if (run.waiting > 1) {
      // T8: an ingress that hangs must not make the rows of the others late.
      run.cutOff = this.#ports.clock.alarm(() => run.rows > 0 && this.#start(run));
      run.cutOff.set(later(batch.latest, after(run.receivedAt, PULL_GRACE)));
    }
    batch.ingresses.forEach(({ ingress, token }, i) => {
      const peer = { key: ingress, address: this.#station.directory.get(ingress)?.address };
      const seqs = run.seqsOf(i);
      const pull = {
        executor: this.key,
        gpu: batch.gpu,
        thread: batch.thread,
        batchId: batch.batchId,
        batcher: run.batcher,
        token,
        seqs,
      };
      this.#ports.data.pull(peer, pull, timeoutMs, (outcome) => {
        if (run.started) return; // Too late: the batch runs without these rows.
        if ("items" in outcome) run.take(i, outcome.items);
        else
          this.#station.log.warn(
            { batch: batch.batchId, failure: outcome.failure, items: seqs.length },
            "inputs could not be pulled",
          );
        run.waiting--;
        if (run.waiting === 0) this.#start(run);
      });
    });
  }

  #start(run: Run): void {
    run.started = true;
    run.cutOff?.clear();
    run.readyAt = this.#now();
    if (run.rows === 0) return this.#finish(run, undefined);
    const { spec } = run.model;
    const bucket = run.batch.thread % 64;
    run.desk.engine.run({ model: spec.name, bucket, batchSize: run.rows, inputs: run.tensors() }, (outcome) =>
      this.#finish(run, outcome),
    );
  }

  #finish(run: Run, outcome: RunOutcome | undefined): void {
    const { batch, desk } = run;
    const finishedAt = this.#now();
    const took = outcome?.kind === "ran" ? outcome.run : micros(0);
    const startedAt = before(finishedAt, took);
    let failed = 0;
    batch.ingresses.forEach(({ ingress, token }, i) => {
      const items = run.results(i, outcome);
      if (items.length === 0) return;
      for (const item of items) if (item.outputs === undefined) failed++;
      const address = this.#station.directory.get(ingress)?.address;
      this.#ports.data.push(
        { key: ingress, address },
        {
          executor: this.key,
          gpu: batch.gpu,
          thread: batch.thread,
          batchId: batch.batchId,
          batcher: run.batcher,
          token,
          batchSize: run.rows,
          startedAt,
          finishedAt,
          run: took,
          items,
        },
      );
    });
    desk.batches++;
    desk.items += run.rows;
    desk.failedItems += failed;
    this.#runs.delete(runKey(run.batcher, batch.batchId));
    const news = desk.finish(batch.expectedRun, took, finishedAt);
    if (news !== undefined) this.#tellFree(desk, news);
    this.#reportFinished(run, { startedAt, finishedAt, took, failed });
    traceBatch(this.#ports.telemetry.tracer, run, {
      startedAt,
      finishedAt,
      error: outcome?.kind === "failed" ? outcome.reason : undefined,
    });
    if (outcome?.kind === "failed" && outcome.fault) this.#ports.onFault(outcome.reason);
    if (this.#runs.size === 0) this.#drained?.();
  }

  #reportFinished(run: Run, ran: { startedAt: Instant; finishedAt: Instant; took: Micros; failed: number }): void {
    const { batch } = run;
    const finished: BatchFinished = {
      batchId: batch.batchId,
      thread: batch.thread,
      gpu: batch.gpu,
      batchSize: run.rows,
      failed: ran.failed,
      executor: this.key,
      grantedAt: batch.grantedAt,
      receivedAt: run.receivedAt,
      readyAt: run.readyAt,
      startedAt: ran.startedAt,
      finishedAt: ran.finishedAt,
      run: ran.took,
    };
    this.#station.send(run.batcher, BatchFinished, finished, "soon");
    if (run.rows > 0 && ran.took > 0 && this.#observed.length < OBSERVED_MAX) this.#observed.push(finished);
  }

  /** Nobody waits for observations, so they travel together. */
  #tellObserved(): void {
    for (const finished of this.#observed.splice(0)) this.#station.broadcast("profiler", BatchFinished, finished);
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
    if (!this.#starting) this.#join();
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

  #report(report: Parameters<ConstructorParameters<typeof ModelKeeper>[0]["report"]>[0]): void {
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
    for (const report of this.#keeper.reports())
      if (this.#catalog.get(report.model)?.status?.state !== "ready") this.#report(report);
  }

  #stats() {
    let batches = 0;
    let items = 0;
    let failedItems = 0;
    const perGpu = [...this.#desks.values()].map((desk) => {
      batches += desk.batches;
      items += desk.items;
      failedItems += desk.failedItems;
      return {
        gpu: desk.gpu,
        figures: {
          busyUs: desk.busyUs,
          batches: desk.batches,
          items: desk.items,
          accepted: desk.accepted,
          refused: desk.refusedBatches,
        },
      };
    });
    return {
      figures: { batches, items, failedItems, models: this.#keeper.reports().length, epoch: this.#fence.epoch },
      perGpu,
    };
  }
}

const fits = ({ thread, ingresses, requests }: BatchDispatched, spec: ModelSpec): boolean =>
  bucketOf(thread) < spec.buckets.length &&
  requests.length <= spec.batchSizeMax &&
  requests.length === ingresses.reduce((sum, { count }) => sum + count, 0);

const runKey = (batcher: ActorKey, batchId: BatchId): string => `${batcher}/${batchId}`;
