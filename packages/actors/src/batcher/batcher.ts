/**
 * The batcher: one ModelThread per (model, bucket) whose lease it holds. Scheduling only; tensors never come here.
 *
 *   B1. A thread lives under the term of its model's lease. What names another term is not for it (T5).
 *   B2. An arrival that was lost on the way is noticed by its number and asked for; a repeated one is dropped.
 *   B3. A dispatched batch is held until its executor reports it done, refuses it, or dies (T1).
 */
import type { Alarm, Stop } from "@tutti/clock";
import {
  ArrivalsMissed,
  BUCKET,
  BatchFinished,
  BatchRefused,
  ExecutorLost,
  GpuGranted,
  type Heartbeat,
  type ModelSpec,
  RequestArrived,
  RequestWithdrawn,
  THREAD_BATCHES_MAX,
  THREAD_REQUESTS_MAX,
  leaseKeys,
  rowLayout,
  threadName,
  threadOf,
} from "@tutti/protocol";
import { LatencyTable } from "@tutti/profile";
import { type ModelEvent, type Policy, createModelThread, step } from "@tutti/scheduling";
import {
  type ActorKey,
  type BatchId,
  type Instant,
  type Micros,
  NEVER,
  after,
  between,
  micros,
  millis,
} from "@tutti/units";
import { Catalog, type CatalogModel } from "../catalog.ts";
import { LeaderWatch } from "../leader.ts";
import type { Actor, ActorConfig, ActorPorts } from "../ports.ts";
import { reserve } from "../reserve.ts";
import { Station } from "../station.ts";
import { wellFormed } from "../well-formed.ts";
import { ArrivalOrder } from "./arrival-order.ts";
import { batcherFigures } from "./batcher-figures.ts";
import { ASKINGS_MAX, Dispatcher, type QueuedRequest } from "./dispatcher.ts";
import { ModelLeases } from "./model-leases.ts";
import { type DelayFloors, PullCost } from "./pull-cost.ts";
import { NO_COUNTS, type ThreadEntry, ThreadTable, countStart } from "./thread-table.ts";

export interface BatcherConfig extends ActorConfig {
  readonly policy: Policy;
  readonly gather: "target" | "head";
  /** Overrides the models' own patience: 0 eager … 1 full deferral. */
  readonly patience?: number;
  readonly delayFloors: DelayFloors;
  /**
   * Share of its SLO that a batch starts before frontrun. The window from frontrun to latest is only l(b+1) − l(b) wide: a machine that is late by more
   * than that once would turn a deferred request into a refused one.
   */
  readonly marginShare: number;
}

export function createBatcher(ports: ActorPorts, config: BatcherConfig, ready: () => void): Actor {
  return new Batcher(ports, config, ready);
}

/** Arrivals kept for a thread whose lease we have not heard of yet; an ingress may hear of it first. */
const EARLY_MAX = 4_096;
/** Room for 2^34 batches per thread, so that ids stay unique in a batcher and below 2^53. */
const BATCH_IDS = 2 ** 34;

class Batcher implements Actor {
  readonly role = "batcher" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: BatcherConfig;
  readonly #station: Station;
  readonly #catalog: Catalog;
  readonly #leases: ModelLeases;
  readonly #threads = new ThreadTable();
  readonly #order = new ArrivalOrder();
  readonly #leader: LeaderWatch;
  readonly #dispatcher: Dispatcher;
  readonly #alarm: Alarm;
  readonly #inheriting: Alarm;
  readonly #timers: Stop[];
  #early: { arrival: RequestArrived; sender: ActorKey }[] = [];
  #armedFor: Instant = NEVER;
  #threadsStarted = 0;
  /** The term under which each model's threads were started last: B1. */
  readonly #startedUnder = new Map<number, number>();
  /** From then on every living peer must have been heard. */
  #knowsPeersAt: Instant = NEVER;
  #leaving = false;

  constructor(ports: ActorPorts, config: BatcherConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#station = new Station(ports, config, {
      role: "batcher",
      listensTo: ["ingress", "batcher", "ranker", "executor"],
      // Of an executor's death the leading ranker tells. An ingress that only lost its connection comes back for what it asked; one that died costs a
      // few useless rows until its time-out.
      probes: ({ role }) => role === "batcher",
      beat: () => ({ offers: this.#dispatcher.currentOffers() }),
      stats: () => this.#stats(),
      onBeat: (peer) => this.#onBeat(peer),
      onJoin: (peer) => peer.role === "batcher" && this.#leases.claimAll(),
      onLost: (peer) => this.#onLost(peer),
    });
    this.#leader = new LeaderWatch(this.#station, ({ epoch }) => {
      this.#dispatcher.leaderChanged();
      this.#stepAll((at) => ({ kind: "ranker-changed", at, epoch }));
    });
    this.#dispatcher = new Dispatcher({
      station: this.#station,
      leader: this.#leader,
      threads: this.#threads,
      self: config.key,
      clock: ports.clock,
    });
    this.#catalog = new Catalog(ports.store, this.#station.log, {
      onChange: (model, before) => this.#onModel(model, before),
      onGone: (model) => this.#onModelGone(model),
    });
    this.#leases = new ModelLeases({
      clock: ports.clock,
      peerTimeout: config.peerTimeout,
      store: ports.store,
      catalog: () => this.#catalog,
      self: config.key,
      alive: () =>
        this.#leaving ? [] : [config.key, ...[...this.#station.directory.ofRole("batcher")].map((peer) => peer.key)],
      knowsPeers: () => this.#now() >= this.#knowsPeersAt,
    });
    this.#inheriting = ports.clock.alarm(() => this.#leases.claimAll());
    this.#alarm = ports.clock.alarm(() => this.#onAlarm());
    this.#listen();
    this.#timers = [
      ports.clock.every(millis(20), () => this.#askForOverdue()),
      ports.clock.every(millis(250), () => this.#retuneDelays()),
      ports.clock.every(millis(500), () => this.#catchUp()),
    ];
    this.#catalog.open(() => {
      this.#station.open();
      this.#knowsPeersAt = after(this.#now(), config.peerTimeout);
      this.#inheriting.set(this.#knowsPeersAt);
      this.#leases.claimAll();
      ports.bus.flush(() => ready());
    });
  }

  drain(done: () => void): void {
    this.#leaving = true;
    this.#alarm.clear();
    this.#dispatcher.close();
    this.#inheriting.clear();
    this.#leases.close();
    for (const timer of this.#timers) timer.stop();
    this.#catalog.close();
    this.#station.close(done);
  }

  #listen(): void {
    const { reader } = this.#station;
    reader.on(RequestArrived, (arrival, sender) => this.#onArrival(arrival, sender));
    reader.on(RequestWithdrawn, ({ thread, seq }, sender) => {
      const entry = this.#threads.get(thread);
      if (entry !== undefined) this.#step(entry, { kind: "request-withdrawn", at: this.#now(), ingress: sender, seq });
    });
    reader.on(GpuGranted, (grant) => {
      const entry = this.#threads.get(grant.thread);
      if (entry === undefined || grant.term !== entry.term) return;
      const at = this.#now();
      entry.grants++;
      entry.grantLagUs += between(grant.sentAt, at);
      this.#step(entry, { kind: "gpu-granted", at, grant });
    });
    reader.on(BatchFinished, (finished, sender) => this.#onFinished(finished, sender));
    reader.on(BatchRefused, ({ batchId, thread }, sender) => {
      if (this.#release(batchId, sender)) this.#stepById(thread, (at) => ({ kind: "batch-refused", at, batchId }));
    });
    this.#station.onPacked(ExecutorLost, wellFormed.executorLost, ({ executor }) => this.#onExecutorLost(executor));
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }

  #onArrival(arrival: RequestArrived, sender: ActorKey): void {
    const entry = this.#threads.get(arrival.thread);
    if (entry === undefined || arrival.term > entry.term) {
      if (this.#early.length < EARLY_MAX) this.#early.push({ arrival, sender });
      return;
    }
    if (arrival.term < entry.term) return; // B1: sent again under the new term by its ingress.
    const verdict = this.#order.note(sender, arrival.thread, arrival.term, arrival.arrivalSeq);
    if (verdict === "repeated") return;
    if (verdict !== "fresh") this.#askAgain(sender, arrival.thread, arrival.term, verdict);
    const now = this.#now();
    entry.arrivals++;
    entry.arrivalLagUs += between(arrival.arrivedAt, now);
    const request: QueuedRequest = {
      ingress: sender,
      seq: arrival.seq,
      deadline: arrival.deadline,
      arrivedAt: arrival.arrivedAt,
      slo: arrival.slo,
      app: arrival.app,
      size: arrival.size,
      thread: arrival.thread,
    };
    this.#step(entry, { kind: "request-arrived", at: now, request });
  }

  #askAgain(
    ingress: ActorKey,
    thread: RequestArrived["thread"],
    term: number,
    range: { from: number; to: number },
  ): void {
    this.#station.send(ingress, ArrivalsMissed, { thread, term, fromSeq: range.from, toSeq: range.to });
  }

  #onBeat(peer: Heartbeat): void {
    this.#leader.hearBeat(peer);
    for (const { thread, term, arrivalSeq } of peer.arrivals ?? []) {
      if (this.#threads.get(thread)?.term !== term) continue;
      const range = this.#order.missing(peer.key, thread, term, arrivalSeq);
      if (range !== undefined) this.#askAgain(peer.key, thread, term, range);
    }
  }

  #onLost(peer: Heartbeat): void {
    if (peer.role === "executor") this.#onExecutorLost(peer.key);
    else if (peer.role === "batcher") this.#leases.claimAll();
    else if (peer.role === "ingress") {
      this.#order.forgetIngress(peer.key);
      this.#dispatcher.forgetIngress(peer.key);
      this.#stepAll((at) => ({ kind: "ingress-lost", at, ingress: peer.key }));
    }
  }

  #onExecutorLost(executor: ActorKey): void {
    for (const batch of this.#dispatcher.outstanding.values())
      if (batch.executor === executor) this.#dispatcher.outstanding.delete(batch.batchId);
    this.#stepAll((at) => ({ kind: "executor-lost", at, executor }));
  }

  #onFinished(finished: BatchFinished, sender: ActorKey): void {
    if (!this.#release(finished.batchId, sender)) return;
    const entry = this.#threads.get(finished.thread);
    if (entry === undefined) return;
    const now = this.#now();
    if (finished.batchSize > 0) {
      const startDelay = between(finished.grantedAt, finished.readyAt);
      countStart(entry, finished.batchSize, startDelay);
      entry.pullCost.note(now, finished.batchSize, startDelay);
    }
    this.#step(entry, { kind: "batch-finished", at: now, batchId: finished.batchId });
  }

  /** B3. @returns whether it was ours, and `sender` the one who had it */
  #release(batchId: BatchId, sender: ActorKey): boolean {
    if (this.#dispatcher.outstanding.get(batchId)?.executor !== sender) return false;
    return this.#dispatcher.outstanding.delete(batchId);
  }

  #askForOverdue(): void {
    const now = this.#now();
    for (const batch of this.#dispatcher.outstanding.values()) {
      if (batch.askAt > now) continue;
      // Silence of a living executor says that the batch still runs: putting it back would run it twice.
      const mayRun = now <= batch.lastDeadline && this.#station.directory.get(batch.executor) !== undefined;
      if (batch.askings < ASKINGS_MAX || mayRun) this.#dispatcher.ask(batch, now);
      else {
        this.#dispatcher.outstanding.delete(batch.batchId);
        this.#station.log.warn(
          { batch: batch.batchId, gpu: batch.gpu },
          "an executor never reported a batch; its requests go back",
        );
        this.#stepById(batch.thread, (at) => ({ kind: "batch-refused", at, batchId: batch.batchId }));
      }
    }
  }

  #onModel(model: CatalogModel, before: CatalogModel | undefined): void {
    const held = model.lease?.batcher === this.key;
    const changed =
      model.lease?.term !== before?.lease?.term ||
      model.spec.version !== before?.spec.version ||
      model.status?.state !== before?.status?.state;
    if (changed) {
      this.#endThreads(before ?? model);
      if (held && model.status?.state === "ready") this.#begin(model);
    } else if (held && model.status !== before?.status) this.#reprofile(model);
    this.#leases.claim(model);
  }

  /** B1: threads that start again do so under a new term; their offers and arrivals are counted from one, and would be taken for old ones. */
  #begin(model: CatalogModel): void {
    const { number } = model.spec;
    const term = model.lease?.term ?? 0;
    if (this.#startedUnder.get(number) === term) return this.#leases.renew(model);
    this.#startedUnder.set(number, term);
    this.#startThreads(model);
  }

  /** What a store that did not answer has left undone. */
  #catchUp(): void {
    this.#leases.claimAll();
    for (const model of this.#catalog.models()) {
      if (model.lease?.batcher !== this.key || model.status?.state !== "ready") continue;
      if (this.#threads.get(threadOf(model.spec, 0)) === undefined && profileOf(model, 0) !== undefined)
        this.#begin(model);
    }
  }

  #onModelGone(model: CatalogModel): void {
    this.#endThreads(model);
    this.#startedUnder.delete(model.spec.number);
    this.#leases.forget(model.spec.number);
    // Numbers are never given again, so nobody will miss it.
    if (model.lease?.batcher === this.key && !this.#leaving)
      this.#ports.store.delete(BUCKET.leases, leaseKeys.model(model.spec.number), () => undefined);
  }

  #startThreads(model: CatalogModel): void {
    const { spec } = model;
    for (let bucket = 0; bucket < spec.buckets.length; bucket++) {
      const profile = profileOf(model, bucket);
      if (profile !== undefined) this.#startThread(spec, bucket, profile, model.lease?.term ?? 0);
    }
    const early = this.#early;
    this.#early = [];
    for (const { arrival, sender } of early) this.#onArrival(arrival, sender);
    this.#arm();
  }

  #startThread(spec: ModelSpec, bucket: number, profile: LatencyTable, term: number): void {
    const pullCost = new PullCost(this.#config.delayFloors, rowLayout(spec, bucket).byteLength);
    const id = threadOf(spec, bucket);
    const core = createModelThread({
      thread: id,
      term,
      epoch: this.#leader.leader?.epoch ?? 0,
      profile,
      slo: spec.slo,
      policy: this.#config.policy,
      patience: this.#config.patience ?? spec.patience,
      gather: this.#config.gather,
      guard: this.#guardOf(spec),
      ctrl: reserve(pullCost.ctrl(this.#now()), spec.slo),
      perItem: Math.round(pullCost.perItem()) as Micros,
      respond: reserve(this.#dispatcher.respond, spec.slo),
      queueMax: THREAD_REQUESTS_MAX,
      batchesInFlightMax: THREAD_BATCHES_MAX,
      batchIdBase: this.#threadsStarted++ * BATCH_IDS + 1,
    });
    const index = this.#threads.nextIndex();
    this.#threads.add({
      index,
      id,
      spec,
      bucket,
      term,
      core,
      pullCost,
      ...NO_COUNTS,
    });
    this.#station.log.info({ model: threadName(spec, bucket), term }, "took a ModelThread");
  }

  #endThreads(model: CatalogModel): void {
    for (let bucket = 0; bucket < model.spec.buckets.length; bucket++) {
      const entry = this.#threads.get(threadOf(model.spec, bucket));
      if (entry === undefined) continue;
      this.#threads.remove(entry);
      this.#order.forgetThread(entry.id);
      this.#dispatcher.forgetThread(entry.id);
    }
  }

  #reprofile(model: CatalogModel): void {
    for (let bucket = 0; bucket < model.spec.buckets.length; bucket++) {
      const profile = profileOf(model, bucket);
      if (profile !== undefined)
        this.#stepById(threadOf(model.spec, bucket), (at) => ({ kind: "profile-changed", at, profile }));
    }
  }

  #guardOf(spec: ModelSpec): Micros {
    // The adaptive policy starts earlier than that already.
    const marginShare = this.#config.policy.kind === "adaptive" ? 0 : this.#config.marginShare;
    return micros(reserve(this.#ports.clock.lateness(), spec.slo) + Math.round(marginShare * spec.slo));
  }

  #retuneDelays(): void {
    for (const entry of this.#threads.values()) {
      const at = this.#now();
      const { slo } = entry.spec;
      const perItem = micros(Math.round(entry.pullCost.perItem()));
      const ctrl = reserve(entry.pullCost.ctrl(at), slo);
      const respond = reserve(this.#dispatcher.respond, slo);
      const guard = this.#guardOf(entry.spec);
      const { core } = entry;
      if (ctrl === core.ctrl && perItem === core.perItem && respond === core.respond && guard === core.guard) continue;
      this.#step(entry, { kind: "delays-changed", at, ctrl, perItem, respond, guard });
    }
  }

  #stepById(id: ThreadEntry["id"], event: (at: Instant) => ModelEvent): void {
    const entry = this.#threads.get(id);
    if (entry !== undefined) this.#step(entry, event(this.#now()));
  }
  #stepAll(event: (at: Instant) => ModelEvent): void {
    for (const entry of this.#threads.values()) this.#step(entry, event(this.#now()));
  }
  #step(entry: ThreadEntry, event: ModelEvent): void {
    step(entry.core, event, this.#dispatcher);
    this.#threads.rearm(entry);
    this.#arm();
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
      step(entry.core, { kind: "clock-reached", at: now }, this.#dispatcher);
      this.#threads.rearm(entry);
    }
    this.#arm();
  }

  #stats() {
    const { size: outstanding } = this.#dispatcher.outstanding;
    return batcherFigures(this.#threads, this.#now(), outstanding, this.#ports.clock.lateness());
  }
}

function profileOf(model: CatalogModel, bucket: number): LatencyTable | undefined {
  const points = model.status?.profiles[bucket];
  if (points === undefined || points.length === 0) return undefined;
  return LatencyTable.fromPoints(points, { batchSizeMax: model.spec.batchSizeMax });
}
