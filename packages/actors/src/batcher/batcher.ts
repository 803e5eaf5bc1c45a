/**
 * The batcher: one ModelThread per (model, bucket) whose lease it holds. It only schedules; no tensors pass through it.
 *
 *   BATCHER-1. A thread lives under the term of its model's lease. A message that names another term is not for it
 *              (T5).
 *   BATCHER-2. The number of an arrival reveals that an earlier one was lost; the batcher asks for it. Repeated ones
 *              are dropped.
 *   BATCHER-3. A dispatched batch is held until its executor reports it done, refuses it, or dies (T1).
 */
import type { Stop } from "@tutti/ports/clock";
import {
  BUCKET,
  BatchFinished,
  BatchRefused,
  ExecutorLost,
  GpuGranted,
  type Heartbeat,
  RequestArrived,
  RequestCosts,
  RequestWithdrawn,
  leaseKeys,
  threadOf,
} from "@tutti/protocol";
import { type DispatchedBatch, batchInFlight } from "@tutti/scheduling";
import { type ActorKey, type BatchId, type Instant, type ThreadId, between, millis, seconds } from "@tutti/units";
import { Catalog, type CatalogModel } from "../runtime/catalog.ts";
import { plausible } from "../runtime/plausible.ts";
import type { Actor, ActorPorts } from "../runtime/ports.ts";
import { ActorRuntime } from "../runtime/actor-runtime.ts";
import { RankerRouter } from "./ranker-router.ts";
import { Arrivals } from "./arrivals.ts";
import { ArrivalOrder } from "./arrival-order.ts";
import type { BatcherConfig } from "./batcher-config.ts";
import { batcherFigures } from "./batcher-figures.ts";
import { Dispatcher } from "./dispatcher.ts";
import { OverdueBatches } from "./overdue-batches.ts";
import { EndedBatches } from "./ended-batches.ts";
import { ModelOwnership } from "./ownership/model-ownership.ts";
import { ModelLoads } from "./ownership/model-loads.ts";
import { SampleSelector } from "./sample-selector.ts";
import { QuotaPublisher } from "./quota-publisher.ts";
import { StallDetector } from "./stall-detector.ts";
import { ModelThreads, profileOf } from "./model-threads.ts";
import { ThreadStepper } from "./thread-stepper.ts";
import { ThreadTable, countStart } from "./thread-table.ts";

export function createBatcher(ports: ActorPorts, config: BatcherConfig, ready: () => void): Actor {
  return new Batcher(ports, config, ready);
}

class Batcher implements Actor {
  readonly role = "batcher" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: BatcherConfig;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #ownership: ModelOwnership;
  readonly #modelThreads: ModelThreads;
  readonly #threads = new ThreadTable();
  readonly #loads = new ModelLoads();
  readonly #order = new ArrivalOrder();
  readonly #selector = new SampleSelector();
  readonly #ended = new EndedBatches();
  readonly #router: RankerRouter;
  readonly #dispatcher: Dispatcher;
  readonly #overdue: OverdueBatches;
  readonly #shares: QuotaPublisher;
  readonly #stalls: StallDetector;
  readonly #stepper: ThreadStepper;
  readonly #arrivals: Arrivals;
  readonly #timers: Stop[];
  #leave: (() => void) | undefined;

  constructor(ports: ActorPorts, config: BatcherConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#runtime = new ActorRuntime(ports, config, {
      role: "batcher",
      listensTo: ["ingress", "batcher", "ranker", "executor"],
      // The leading ranker reports the death of an executor. An ingress that only lost its connection comes back for
      // the answers to its requests; one that died costs a few useless rows until its time-out.
      probes: ({ role }) => role === "batcher",
      beat: () => this.#beat(),
      stats: () => this.#stats(),
      told: (at) => this.#ended.told(at),
      onBeat: (peer) => this.#onBeat(peer),
      onJoin: (peer) => peer.role === "batcher" && this.#ownership.leases.changed(),
      onLost: (peer) => this.#onLost(peer),
    });
    this.#router = new RankerRouter({
      runtime: this.#runtime,
      store: ports.store,
      clock: ports.clock,
      threads: this.#threads,
      dispatcher: () => this.#dispatcher,
      step: (entry, event) => this.#stepper.step(entry, event),
    });
    this.#dispatcher = new Dispatcher({
      runtime: this.#runtime,
      router: this.#router,
      threads: this.#threads,
      selector: this.#selector,
      self: config.key,
      clock: ports.clock,
      local: ports.local,
    });
    this.#overdue = this.#createOverdueBatches();
    this.#catalog = new Catalog(ports.store, this.#runtime.log, {
      onChange: (model, before) => this.#onModel(model, before),
      onGone: (model) => this.#onModelGone(model),
    });
    this.#ownership = new ModelOwnership({
      ports,
      config,
      runtime: this.#runtime,
      router: this.#router,
      dispatcher: this.#dispatcher,
      catalog: () => this.#catalog,
      threads: () => this.#modelThreads,
      loads: this.#loads,
    });
    this.#modelThreads = this.#createModelThreads();
    this.#shares = new QuotaPublisher({ runtime: this.#runtime, threads: this.#threads, clock: ports.clock });
    this.#stalls = this.#createStalls();
    this.#stepper = this.#createStepper();
    this.#arrivals = this.#createArrivals();
    this.#listen();
    this.#timers = [
      ports.clock.every(millis(20), () => this.#tick()),
      ports.clock.every(millis(250), () => this.#modelThreads.retuneAll()),
      ports.clock.every(millis(500), () => this.#catchUp()),
      ports.clock.every(seconds(1), () => this.#lookBack()),
    ];
    this.#router.placement.open(() =>
      this.#catalog.open(() => {
        this.#runtime.open();
        this.#ownership.open();
        ports.bus.flush(() => ready());
      }),
    );
  }

  #lookBack(): void {
    const now = this.#now();
    this.#modelThreads.boundAllJobs();
    this.#loads.read(this.#threads, now);
    this.#selector.tell(this.#runtime, now);
  }

  /** Leaves only after others have taken its models, which are served here meanwhile (T9). */
  drain(done: () => void): void {
    if (this.#ownership.leaving) return;
    this.#leave = () => {
      this.#leave = undefined;
      this.#stepper.close();
      this.#dispatcher.close();
      this.#ownership.close();
      this.#shares.close();
      this.#stalls.close();
      for (const timer of this.#timers) timer.stop();
      this.#catalog.close();
      this.#router.placement.close();
      this.#runtime.close(done);
    };
    this.#ownership.leave();
    this.#tick();
  }

  #createModelThreads(): ModelThreads {
    return new ModelThreads({
      clock: this.#ports.clock,
      config: this.#config,
      threads: this.#threads,
      order: this.#order,
      dispatcher: this.#dispatcher,
      selector: this.#selector,
      router: this.#router,
      step: (entry, event) => this.#stepper.step(entry, event),
      catalog: () => this.#catalog,
      isPassing: (modelNumber) => this.#ownership.isPassing(modelNumber),
      onStarted: (model, term) => this.#runtime.log.info({ model, term }, "took a ModelThread"),
    });
  }

  #createOverdueBatches(): OverdueBatches {
    return new OverdueBatches({
      runtime: this.#runtime,
      clock: this.#ports.clock,
      threads: this.#threads,
      dispatcher: this.#dispatcher,
      giveUp: ({ thread, batchId }) => this.#stepper.stepById(thread, (at) => ({ kind: "batch-refused", at, batchId })),
    });
  }

  #createStalls(): StallDetector {
    const { clock } = this.#ports;
    return new StallDetector({
      ...{ clock, log: this.#runtime.log, threads: this.#threads },
      hasIdle: (subCluster) =>
        this.#runtime.registry.some("executor", ({ gpus = [] }) =>
          gpus.some((gpu) => gpu.serving && gpu.idle && gpu.subCluster === subCluster),
        ),
      renew: (modelNumber) => this.#ownership.renew(modelNumber),
      tell: () => this.#runtime.beat(),
    });
  }

  #createStepper(): ThreadStepper {
    return new ThreadStepper({
      ...{ clock: this.#ports.clock, threads: this.#threads, dispatcher: this.#dispatcher },
      onStep: (entry) => this.#shares.stepped(entry),
    });
  }

  #createArrivals(): Arrivals {
    return new Arrivals({
      ...{ runtime: this.#runtime, clock: this.#ports.clock, threads: this.#threads, order: this.#order },
      ...{ modelThreads: this.#modelThreads, dispatcher: this.#dispatcher, stepper: this.#stepper },
      ...{ selector: this.#selector, stalls: this.#stalls },
      takesHints: (this.#config.latency ?? "hints") === "hints",
    });
  }

  #typeOf({ executor, gpu }: Pick<GpuGranted, "executor" | "gpu">): string | undefined {
    return this.#runtime.registry.get(executor)?.gpus?.find((state) => state.gpu === gpu)?.type;
  }

  #listen(): void {
    const { reader } = this.#runtime;
    const { arrival: isArrival, costs: areCosts, grant: isGrant, finished: isFinished } = plausible(() => this.#now());
    this.#runtime.onPlausible(RequestCosts, areCosts, (costs, sender) => this.#arrivals.noteCosts(costs, sender));
    this.#runtime.onPlausible(RequestArrived, isArrival, (arrival, sender) => this.#arrivals.take(arrival, sender));
    reader.on(RequestWithdrawn, ({ thread, seq }, sender) => {
      const entry = this.#threads.get(thread);
      if (entry === undefined) return;
      this.#stalls.withdrawn(entry);
      this.#stepper.step(entry, { kind: "request-withdrawn", at: this.#now(), ingress: sender, seq });
    });
    this.#runtime.onPlausible(GpuGranted, isGrant, (grant, sender) => {
      const entry = this.#threads.get(grant.thread);
      // The thread has ended here: decline the grant, so that the accelerator is free before the grant expires.
      if (entry === undefined || grant.term < entry.term) return this.#dispatcher.decline(grant, this.#now());
      if (grant.term > entry.term) return;
      if (this.#router.isForeign(entry, grant, sender)) return this.#dispatcher.decline(grant, this.#now());
      this.#router.noteGrant(entry, grant, sender);
      const at = this.#now(); // a grant of a new leader has stepped the thread
      entry.grants++;
      entry.grantLagUs += between(this.#dispatcher.dueAt(grant), at);
      const own = this.#modelThreads.ownProfile(grant.thread, () => this.#typeOf(grant));
      this.#stepper.step(entry, { kind: "gpu-granted", at, grant, ...(own !== undefined && { own }) });
    });
    this.#runtime.onPlausible(BatchFinished, isFinished, (finished, sender) => this.#onFinished(finished, sender));
    reader.on(BatchRefused, ({ batchId, thread }, sender) => {
      if (this.#batchOf(thread, batchId, sender) !== undefined)
        this.#stepper.stepById(thread, (at) => ({ kind: "batch-refused", at, batchId }));
    });
    this.#runtime.onPacked(ExecutorLost, ({ executor }) => this.#onExecutorLost(executor));
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }

  #onBeat(peer: Heartbeat): void {
    this.#router.leaders.hearBeat(peer);
    if (peer.role === "batcher") this.#ownership.onBeat(peer);
    this.#arrivals.onBeat(peer);
  }

  #onLost(peer: Heartbeat): void {
    if (peer.role === "executor") this.#onExecutorLost(peer.key);
    else if (peer.role === "batcher") this.#ownership.onLost(peer.key);
    else if (peer.role === "ingress") {
      this.#order.forgetIngress(peer.key);
      this.#dispatcher.forgetIngress(peer.key);
      for (const entry of this.#threads.values()) this.#stalls.withdrawn(entry);
      this.#stepper.stepAll((at) => ({ kind: "ingress-lost", at, ingress: peer.key }));
    }
  }

  #onExecutorLost(executor: ActorKey): void {
    this.#stepper.stepAll((at) => ({ kind: "executor-lost", at, executor }));
  }

  #onFinished(finished: BatchFinished, sender: ActorKey): void {
    const batch = this.#batchOf(finished.thread, finished.batchId, sender);
    const entry = this.#threads.get(finished.thread);
    if (batch === undefined || entry === undefined) return;
    if (finished.batchSize > 0) this.#ended.note(finished, batch.requests);
    const now = this.#now();
    if (finished.batchSize > 0) {
      const startDelay = between(finished.grantedAt, finished.readyAt);
      countStart(entry, batch.requests, { batchSize: finished.batchSize, startDelay });
      if (!entry.isForJobs) this.#stalls.answered(entry);
      entry.pullCost.note(now, finished.batchSize, startDelay);
    }
    const ran = finished.batchSize > 0 && finished.failed === 0;
    this.#stepper.step(entry, {
      kind: "batch-finished",
      at: now,
      batchId: finished.batchId,
      ...(ran && { run: finished.run, end: finished.finishedAt }),
    });
  }

  /** A batch in flight; undefined if it is reported already, or the sender is not its executor. */
  #batchOf(thread: ThreadId, batchId: BatchId, sender: ActorKey): DispatchedBatch | undefined {
    const entry = this.#threads.get(thread);
    const batch = entry && batchInFlight(entry.core, batchId);
    return batch?.grant.executor === sender ? batch : undefined;
  }

  #tick(): void {
    this.#overdue.look();
    this.#ownership.tick();
    if (this.#threads.size === 0 || !this.#ownership.hasHeirs) this.#leave?.();
  }

  #onModel(model: CatalogModel, before: CatalogModel | undefined): void {
    const held = model.lease?.batcher === this.key;
    const changed =
      model.lease?.term !== before?.lease?.term ||
      model.spec.version !== before?.spec.version ||
      model.status?.state !== before?.status?.state;
    if (changed) {
      this.#modelThreads.end(before ?? model);
      if (held && model.status?.state === "ready") this.#begin(model);
    } else if (held && (model.status !== before?.status || model.times?.buckets !== before?.times?.buckets))
      this.#modelThreads.reprofile(model);
    this.#ownership.leases.changed();
  }

  #begin(model: CatalogModel): void {
    if (this.#modelThreads.hasRunUnder(model.spec.number, model.lease?.term ?? 0))
      return this.#ownership.leases.renew(model);
    this.#modelThreads.start(model);
    this.#arrivals.retryEarly();
    this.#stepper.arm();
  }

  /** Retries lease writes and thread starts that failed because the store did not answer. */
  #catchUp(): void {
    this.#arrivals.forgetEarly();
    this.#ownership.leases.claimAll();
    for (const model of this.#catalog.models()) {
      if (model.lease?.batcher !== this.key || model.status?.state !== "ready") continue;
      if (this.#threads.get(threadOf(model.spec, 0)) === undefined && profileOf(model, 0) !== undefined)
        this.#begin(model);
    }
  }

  #onModelGone(model: CatalogModel): void {
    this.#modelThreads.end(model);
    this.#modelThreads.forget(model.spec.number);
    this.#ownership.leases.forget(model.spec.number);
    // Model numbers are never reused, so the lease can be deleted safely.
    if (model.lease?.batcher === this.key && !this.#ownership.leaving)
      this.#ports.store.delete(BUCKET.leases, leaseKeys.model(model.spec.number), () => undefined);
  }

  #beat(): Partial<Heartbeat> {
    const load = Math.round(this.#loads.total);
    const offers = this.#dispatcher.currentOffers();
    const jobOffers = offers.flatMap((one) => (one.takes === undefined ? [] : [{ ...one, takes: one.takes }]));
    return {
      ...{ takes: this.#ownership.takes, load, takesJobs: true },
      offers: jobOffers.length === 0 ? offers : offers.filter(({ takes }) => takes === undefined),
      ...(jobOffers.length > 0 && { jobOffers }),
      ...this.#stalls.news(),
    };
  }
  #stats() {
    return batcherFigures(this.#threads, this.#now(), this.#ports.clock.lateness(), this.#stalls);
  }
}
