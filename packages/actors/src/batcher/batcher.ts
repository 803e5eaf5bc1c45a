/**
 * The batcher: one ModelThread per (model, bucket) whose lease it holds. It only schedules; no tensors pass through it.
 *
 *   BATCHER-1. A thread lives under the term of its model's lease. A message that names another term is not for it
 *              (T5).
 *   BATCHER-2. The number of an arrival reveals that an earlier one was lost; the batcher asks for it. Repeated ones
 *              are dropped.
 *   BATCHER-3. A dispatched batch is held until its executor reports it done, refuses it, or dies (T1).
 */
import type { Alarm, Stop } from "@tutti/ports/clock";
import {
  ArrivalsMissed,
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
import {
  type DispatchedBatch,
  type ModelEvent,
  type Policy,
  type Preference,
  batchInFlight,
  step,
} from "@tutti/scheduling";
import {
  type ActorKey,
  type BatchId,
  type Instant,
  NEVER,
  type ThreadId,
  between,
  isJobThread,
  millis,
  requestThreadOf,
  seconds,
} from "@tutti/units";
import { Catalog, type CatalogModel } from "../runtime/catalog.ts";
import { plausible } from "../runtime/plausible.ts";
import type { Actor, ActorConfig, ActorPorts } from "../runtime/ports.ts";
import { OWN_APP_NUMBER } from "../runtime/own-request.ts";
import { ActorRuntime } from "../runtime/actor-runtime.ts";
import { RankerRouter } from "./ranker-router.ts";
import { ArrivalCosts } from "./arrival-costs.ts";
import { ArrivalOrder } from "./arrival-order.ts";
import { batcherFigures } from "./batcher-figures.ts";
import { Dispatcher, type QueuedRequest } from "./dispatcher.ts";
import { OverdueBatches } from "./overdue-batches.ts";
import { EndedBatches } from "./ended-batches.ts";
import { ModelOwnership } from "./ownership/model-ownership.ts";
import { ModelLoads } from "./ownership/model-loads.ts";
import type { DelayFloors } from "./pull-cost.ts";
import { SampleSelector } from "./sample-selector.ts";
import { QuotaPublisher } from "./quota-publisher.ts";
import { StallDetector } from "./stall-detector.ts";
import { ModelThreads, profileOf } from "./model-threads.ts";
import { type ThreadEntry, ThreadTable, countStart } from "./thread-table.ts";

export interface BatcherConfig extends ActorConfig {
  readonly policy: Policy;
  /** Preference of the adaptive policy. */
  readonly prefer?: Preference;
  readonly gather: "target" | "head";
  /**
   * Knowledge used about running times that depend on the input. `hints`, the default: the distribution of each
   * application and the length of each request; `distributions`: the distributions alone; `means`: nothing but mean
   * latencies. For comparisons.
   */
  readonly latency?: "hints" | "distributions" | "means";
  /** Overrides the patience of the models: 0 eager … 1 full deferral. */
  readonly patience?: number;
  readonly delayFloors: DelayFloors;
  /**
   * Share of its SLO by which a batch starts before frontrun. The window from frontrun to latest is only l(b+1) − l(b)
   * wide: a machine that is late by more than that once would turn a deferred request into a refused one.
   */
  readonly marginShare: number;
}

export function createBatcher(ports: ActorPorts, config: BatcherConfig, ready: () => void): Actor {
  return new Batcher(ports, config, ready);
}

/** Bound of the arrivals kept for threads whose lease is not known here yet. An ingress may hear of a lease first. */
const EARLY_MAX = 4_096;

class Batcher implements Actor {
  readonly role = "batcher" as const;
  readonly #takesHints: boolean;
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
  readonly #costs = new ArrivalCosts();
  readonly #selector = new SampleSelector();
  readonly #ended = new EndedBatches();
  readonly #router: RankerRouter;
  readonly #dispatcher: Dispatcher;
  readonly #overdue: OverdueBatches;
  readonly #shares: QuotaPublisher;
  readonly #stalls: StallDetector;
  readonly #alarm: Alarm;
  readonly #timers: Stop[];
  #early: { arrival: RequestArrived; sender: ActorKey; steps: RequestCosts["steps"] | undefined }[] = [];
  #armedFor: Instant = NEVER;
  #leave: (() => void) | undefined;

  constructor(ports: ActorPorts, config: BatcherConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#takesHints = (config.latency ?? "hints") === "hints";
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
      step: (entry, event) => this.#step(entry, event),
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
    this.#alarm = ports.clock.alarm(() => this.#onAlarm());
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
      this.#alarm.clear();
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
      step: (entry, event) => this.#step(entry, event),
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
      giveUp: ({ thread, batchId }) => this.#stepById(thread, (at) => ({ kind: "batch-refused", at, batchId })),
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

  #typeOf({ executor, gpu }: Pick<GpuGranted, "executor" | "gpu">): string | undefined {
    return this.#runtime.registry.get(executor)?.gpus?.find((state) => state.gpu === gpu)?.type;
  }

  #listen(): void {
    const { reader } = this.#runtime;
    const { arrival: isArrival, costs: areCosts, grant: isGrant, finished: isFinished } = plausible(() => this.#now());
    this.#runtime.onPlausible(RequestCosts, areCosts, (costs, sender) => this.#costs.note(costs, sender));
    this.#runtime.onPlausible(RequestArrived, isArrival, (arrival, sender) =>
      this.#onArrival(arrival, sender, this.#costs.take(arrival, sender)),
    );
    reader.on(RequestWithdrawn, ({ thread, seq }, sender) => {
      const entry = this.#threads.get(thread);
      if (entry === undefined) return;
      this.#stalls.withdrawn(entry);
      this.#step(entry, { kind: "request-withdrawn", at: this.#now(), ingress: sender, seq });
    });
    this.#runtime.onPlausible(GpuGranted, isGrant, (grant, sender) => {
      const entry = this.#threads.get(grant.thread);
      const at = this.#now();
      // The thread has ended here: decline the grant, so that the accelerator is free before the grant expires.
      if (entry === undefined || grant.term < entry.term) return this.#dispatcher.decline(grant, at);
      if (grant.term > entry.term) return;
      if (this.#router.isForeign(entry, grant, sender)) return this.#dispatcher.decline(grant, at);
      this.#router.noteGrant(entry, grant, sender);
      entry.grants++;
      entry.grantLagUs += between(this.#dispatcher.dueAt(grant), at);
      const own = this.#modelThreads.ownProfile(grant.thread, () => this.#typeOf(grant));
      this.#step(entry, { kind: "gpu-granted", at, grant, ...(own !== undefined && { own }) });
    });
    this.#runtime.onPlausible(BatchFinished, isFinished, (finished, sender) => this.#onFinished(finished, sender));
    reader.on(BatchRefused, ({ batchId, thread }, sender) => {
      if (this.#batchOf(thread, batchId, sender) !== undefined)
        this.#stepById(thread, (at) => ({ kind: "batch-refused", at, batchId }));
    });
    this.#runtime.onPacked(ExecutorLost, ({ executor }) => this.#onExecutorLost(executor));
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }

  #onArrival(arrival: RequestArrived, sender: ActorKey, steps: RequestCosts["steps"] | undefined): void {
    // Drop late or repeated arrivals of an ingress that has left: its inputs are gone.
    if (this.#runtime.registry.isGone(sender)) return;
    const entry = this.#entryFor(arrival.thread, arrival.term);
    if (entry === undefined || arrival.term > entry.term) {
      if (isJobThread(arrival.thread)) return; // The heartbeats of its ingress bring it again.
      if (this.#early.length >= EARLY_MAX) this.#forgetEarly();
      if (this.#early.length < EARLY_MAX) this.#early.push({ arrival, sender, steps });
      return;
    }
    if (arrival.term < entry.term) return; // BATCHER-1: the ingress sends it again under the new term.
    const verdict = this.#order.note(sender, arrival.thread, arrival.term, arrival.arrivalSeq);
    const now = this.#now();
    const { isForJobs } = entry;
    if (verdict === "repeated") return isForJobs ? undefined : this.#stalls.arrived(entry, arrival.deadline, now);
    if (verdict !== "fresh") this.#askAgain(sender, arrival.thread, arrival.term, verdict);
    entry.arrivals++;
    if (!isForJobs) this.#selector.arrived(entry.id, arrival.app);
    entry.arrivalLagUs += between(arrival.arrivedAt, now);
    const request: QueuedRequest = {
      ingress: sender,
      seq: arrival.seq,
      deadline: arrival.deadline,
      arrivedAt: arrival.arrivedAt,
      slo: arrival.slo,
      app: arrival.app,
      priority: arrival.priority,
      size: arrival.size,
      units: this.#takesHints ? arrival.units : 0,
      isOwn: arrival.app === OWN_APP_NUMBER,
      steps,
      thread: arrival.thread,
    };
    if (entry.isTooLong) return this.#dispatcher.refuseLong(request, entry.id);
    const { infeasible } = entry;
    this.#step(entry, { kind: "request-arrived", at: now, request });
    // Jobs wait as long as requests need the accelerators: that is no stall.
    if (entry.infeasible === infeasible && !isForJobs) this.#stalls.arrived(entry, arrival.deadline, now);
  }

  /** The thread that an ingress means. That of a model's jobs starts with the first of them. */
  #entryFor(thread: ThreadId, term: number): ThreadEntry | undefined {
    const entry = this.#threads.get(thread);
    if (entry !== undefined || !isJobThread(thread)) return entry;
    const requests = this.#threads.get(requestThreadOf(thread));
    return requests?.term === term ? this.#modelThreads.startJobs(requests) : undefined;
  }

  #askAgain(
    ingress: ActorKey,
    thread: RequestArrived["thread"],
    term: number,
    range: { from: number; to: number },
  ): void {
    this.#runtime.send(ingress, ArrivalsMissed, { thread, term, fromSeq: range.from, toSeq: range.to });
  }

  #onBeat(peer: Heartbeat): void {
    this.#router.leaders.hearBeat(peer);
    if (peer.role === "batcher") this.#ownership.onBeat(peer);
    for (const { thread, term, arrivalSeq } of peer.arrivals ?? []) {
      if (this.#entryFor(thread, term)?.term !== term) continue;
      const range = this.#order.missing(peer.key, { thread, term, last: arrivalSeq, sentAt: peer.sentAt }, this.#now());
      if (range !== undefined) this.#askAgain(peer.key, thread, term, range);
    }
  }

  #onLost(peer: Heartbeat): void {
    if (peer.role === "executor") this.#onExecutorLost(peer.key);
    else if (peer.role === "batcher") this.#ownership.onLost(peer.key);
    else if (peer.role === "ingress") {
      this.#order.forgetIngress(peer.key);
      this.#dispatcher.forgetIngress(peer.key);
      for (const entry of this.#threads.values()) this.#stalls.withdrawn(entry);
      this.#stepAll((at) => ({ kind: "ingress-lost", at, ingress: peer.key }));
    }
  }

  #onExecutorLost(executor: ActorKey): void {
    this.#stepAll((at) => ({ kind: "executor-lost", at, executor }));
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
    this.#step(entry, {
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
    } else if (held && (model.status !== before?.status || model.times !== before?.times))
      this.#modelThreads.reprofile(model);
    this.#ownership.leases.changed();
  }

  #begin(model: CatalogModel): void {
    if (this.#modelThreads.hasRunUnder(model.spec.number, model.lease?.term ?? 0))
      return this.#ownership.leases.renew(model);
    this.#modelThreads.start(model);
    const early = this.#early;
    this.#early = [];
    for (const { arrival, sender, steps } of early) this.#onArrival(arrival, sender, steps);
    this.#arm();
  }

  /** Retries lease writes and thread starts that failed because the store did not answer. */
  #catchUp(): void {
    this.#forgetEarly();
    this.#ownership.leases.claimAll();
    for (const model of this.#catalog.models()) {
      if (model.lease?.batcher !== this.key || model.status?.state !== "ready") continue;
      if (this.#threads.get(threadOf(model.spec, 0)) === undefined && profileOf(model, 0) !== undefined)
        this.#begin(model);
    }
  }

  /** Drops early arrivals whose deadline has passed: their lease went to another batcher after all. */
  #forgetEarly(): void {
    const now = this.#now();
    this.#early = this.#early.filter(({ arrival, steps }) => (steps?.at(-1) ?? arrival).deadline > now);
  }

  #onModelGone(model: CatalogModel): void {
    this.#modelThreads.end(model);
    this.#modelThreads.forget(model.spec.number);
    this.#ownership.leases.forget(model.spec.number);
    // Model numbers are never reused, so the lease can be deleted safely.
    if (model.lease?.batcher === this.key && !this.#ownership.leaving)
      this.#ports.store.delete(BUCKET.leases, leaseKeys.model(model.spec.number), () => undefined);
  }

  #stepById(id: ThreadEntry["id"], event: (at: Instant) => ModelEvent): void {
    const entry = this.#threads.get(id);
    if (entry !== undefined) this.#step(entry, event(this.#now()));
  }
  #stepAll(event: (at: Instant) => ModelEvent): void {
    for (const entry of this.#threads.values()) this.#step(entry, event(this.#now()));
  }
  #step(entry: ThreadEntry, event: ModelEvent): void {
    this.#stepNow(entry, event);
    this.#arm();
  }
  #stepNow(entry: ThreadEntry, event: ModelEvent): void {
    step(entry.core, event, this.#dispatcher);
    this.#shares.stepped(entry);
    this.#threads.rearm(entry);
  }

  #arm(): void {
    const next = this.#threads.nextWakeAt;
    if (next === this.#armedFor) return;
    this.#armedFor = next;
    this.#alarm.set(next);
  }
  #onAlarm(): void {
    this.#armedFor = NEVER;
    const now = this.#now();
    for (let entry = this.#threads.due(now); entry !== undefined; entry = this.#threads.due(now)) {
      this.#stepNow(entry, { kind: "clock-reached", at: now });
    }
    this.#arm();
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
