/**
 * The planner: decides where models and accelerators belong, and how many accelerators are needed. It measures loads
 * and the inventories of executors. The decisions are pure (packages/planning); here they get their input and are
 * carried out.
 *
 *   PN1. It is the only writer of the placement, and writes by compare-and-set: a planner that starts goes on from the
 *        present placement.
 *   PN2. It serves no requests: while none runs, everything goes on as it was placed last (docs/architecture.md, 4),
 *        and parked models stay parked.
 *   PN3. A model or executor without a place gets one at once. A move that only balances loads happens at the end of an
 *        epoch or when a rate leaves its band, not more often than once a second, and within an epoch's budget.
 *   PN4. Nothing is decided before all actors had the time to be heard.
 *        It uses as few sub-clusters as rankers can decide for (sub-cluster-choice.ts).
 *   PN5. Of several planners one decides (duty.ts). The others know what it knows.
 */
import type { DeliverySubscription } from "@tutti/ports/bus";
import type { Stop } from "@tutti/ports/clock";
import { type PlacementPlan, isSameParking, isSamePlace, loadWaking, planPlacement } from "@tutti/planning/live";
import { ExecutorInventory, ModelsWanted, ScalingAdvised, StatsReported } from "@tutti/protocol";
import { type ActorKey, type Instant, type Micros, between, millis, seconds } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { Catalog } from "../runtime/catalog.ts";
import type { Actor, ActorConfig, ActorPorts } from "../runtime/ports.ts";
import { isOnDuty } from "../runtime/duty.ts";
import { ActorRuntime } from "../runtime/actor-runtime.ts";
import { ScalingAdvice } from "./scaling-advice.ts";
import { ClusterState } from "./cluster-state.ts";
import { CapacityEstimate } from "./expected-capacity.ts";
import { LoadStats, isOutOfBand } from "./load-stats.ts";
import { type MeasuredModel, measureModels } from "./measured-models.ts";
import { ModelParking } from "./model-parking.ts";
import { PendingMoves } from "./pending-moves.ts";
import { PlacementStore } from "./placement-store.ts";
import { ReasonLog, reportOf } from "./plan-reporter.ts";
import { RolloutController } from "./rollout-controller.ts";
import { SubClusterChoice } from "./sub-cluster-choice.ts";

export interface PlannerConfig extends ActorConfig {
  /** How often loads are balanced, if no rate leaves its band before. */
  readonly epoch: Micros;
  /** How often the advice on scaling is renewed (A8). Default: a third of an epoch. */
  readonly window?: Micros;
  /**
   * Share of all models' memory that may be loaded and unloaded in an epoch only to balance loads. Default: a tenth.
   */
  readonly budgetShare?: number;
  /** Sub-clusters that are used whatever they cost, of those that have a leader. Default: one. */
  readonly subClustersMin?: number;
}

export function createPlanner(ports: ActorPorts, config: PlannerConfig, ready: () => void): Actor {
  return new Planner(ports, config, ready);
}

const TICK = millis(100);
/** PN3. */
const BALANCE_AGAIN = seconds(1);
/** PN4: heartbeats come several times a second, inventories once; rates take two reports. */
const HEARD_AFTER = millis(1_500);
const RATES_AFTER = seconds(3);
const BUDGET_SHARE = 0.1;
/** Interval of reports while nothing is planned. */
const REPORT_EVERY = seconds(5);

class Planner implements Actor {
  readonly role = "planner" as const;
  readonly key: ActorKey;
  readonly #ports: ActorPorts;
  readonly #config: PlannerConfig;
  readonly #runtime: ActorRuntime;
  readonly #catalog: Catalog;
  readonly #placementStore: PlacementStore;
  readonly #rollouts: RolloutController;
  readonly #cluster: ClusterState;
  readonly #loads = new LoadStats();
  readonly #moves: PendingMoves;
  readonly #parking: ModelParking;
  readonly #reasons = new ReasonLog();
  readonly #adviser: ScalingAdvice;
  readonly #choice: SubClusterChoice;
  readonly #advice: FrameWriter;
  readonly #stats: DeliverySubscription[] = [];
  readonly #timers: Stop[] = [];
  readonly #startedAt: Instant;
  #advised: ScalingAdvised | undefined;
  /** Something has no place yet, has lost it, or has come to it. */
  #isNews = true;
  #hasLeftBand = false;
  #balancedAt: Instant;
  #reportedAt: Instant;
  /** Rates at the last balancing, by model number. */
  #plannedRates = new Map<number, number>();
  #plan: PlacementPlan | undefined;
  #plans = 0;

  constructor(ports: ActorPorts, config: PlannerConfig, ready: () => void) {
    this.key = config.key;
    this.#ports = ports;
    this.#config = config;
    this.#startedAt = this.#reportedAt = ports.clock.now();
    this.#balancedAt = this.#startedAt;
    this.#cluster = new ClusterState(this.#startedAt);
    this.#moves = new PendingMoves(config.epoch);
    this.#adviser = new ScalingAdvice(config.window ?? (Math.max(1, Math.round(config.epoch / 3)) as Micros));
    this.#advice = new FrameWriter(config.key);
    this.#runtime = new ActorRuntime(ports, config, {
      role: "planner",
      listensTo: ["executor", "ranker", "planner"],
      stats: () => ({ figures: this.#figures() }),
      onJoin: (peer) => {
        if (peer.role === "executor" && this.#cluster.rejoin(peer.key)) this.#isNews = true;
      },
      onBeat: (peer) => {
        if (peer.role === "ranker" && this.#cluster.hearRanker(peer, this.#now())) this.#isNews = true;
      },
      onLost: (peer) => {
        if (peer.role !== "executor") return;
        this.#cluster.lose(peer.key, this.#now());
        this.#isNews = true;
      },
    });
    const { log } = this.#runtime;
    this.#choice = new SubClusterChoice(config.subClustersMin ?? 1, log);
    this.#placementStore = new PlacementStore({ store: ports.store, log, onChange: () => (this.#isNews = true) });
    this.#catalog = new Catalog(ports.store, log, {
      onChange: ({ spec, status }, before) => {
        if (before?.spec.version !== spec.version || before.status?.state !== status?.state) this.#isNews = true;
      },
      onGone: () => (this.#isNews = true),
    });
    this.#parking = new ModelParking(this.#catalog);
    this.#runtime.onPacked(ModelsWanted, ({ numbers }) => this.#onUse(numbers));
    this.#runtime.onPacked(ExecutorInventory, (inventory, sender) => {
      if (sender === inventory.executor && this.#cluster.hearInventory(inventory)) this.#isNews = true;
    });
    this.#rollouts = new RolloutController({
      ...{ store: ports.store, log, catalog: this.#catalog },
      onNews: (about, text) => this.#reasons.note({ reasons: [{ about, text }] }, this.#now()),
    });
    this.#catalog.open(() => this.#rollouts.open(() => this.#open(ready)));
  }

  drain(done: () => void): void {
    for (const timer of this.#timers) timer.stop();
    for (const subscription of this.#stats) subscription.stop();
    this.#placementStore.close();
    this.#rollouts.close();
    this.#catalog.close();
    this.#runtime.close(done);
  }

  #open(ready: () => void): void {
    const { bus, clock } = this.#ports;
    const reader = new FrameReader().on(StatsReported, (stats) => {
      if (!StatsReported.accepts(stats)) return void this.#runtime.faults++;
      this.#onUse(this.#loads.note(stats, this.#now()));
      this.#rollouts.hear(stats);
    });
    for (const role of ["ingress", "batcher", "executor", "ranker"] as const)
      this.#stats.push(
        bus.subscribe(this.#runtime.subjects.stats(role), ({ payload }) => {
          if (reader.read(payload) !== undefined) this.#runtime.faults++;
        }),
      );
    this.#timers.push(
      clock.every(TICK, () => this.#tick()),
      clock.every(seconds(1), () => this.#advise()),
      clock.every(seconds(1), () => {
        if (this.#isOnDuty) this.#rollouts.look(this.#now());
      }),
    );
    this.#runtime.open();
    bus.flush(() => ready());
  }

  /** These models are asked for. */
  #onUse(numbers: readonly number[]): void {
    if (this.#parking.want(numbers, this.#placementStore.placement, this.#now())) this.#isNews = true;
  }

  /** PN5. */
  get #isOnDuty(): boolean {
    return isOnDuty(this.#runtime, "planner", this.key);
  }

  /** PN3, PN4. */
  #tick(): void {
    const now = this.#now();
    if (this.#cluster.forget(now)) this.#isNews = true;
    if (between(this.#startedAt, now) < HEARD_AFTER || !this.#placementStore.isReady || !this.#isOnDuty) return;
    if (this.#moves.lookAt(this.#placementStore.placement, now)) this.#isNews = true;
    const sinceBalance = between(this.#balancedAt, now);
    const isDue = this.#isNews || this.#hasLeftBand || sinceBalance >= this.#config.epoch;
    const mayBalance = isDue && sinceBalance >= BALANCE_AGAIN && between(this.#startedAt, now) >= RATES_AFTER;
    const mustTell = this.#plan !== undefined && between(this.#reportedAt, now) >= REPORT_EVERY;
    if (!this.#isNews && !mayBalance && !mustTell) return;
    const models = this.#measure(now);
    if (this.#isNews || mayBalance) this.#replan(models, now, mayBalance);
    else this.#report(models, now);
  }

  #measure(now: Instant): MeasuredModel[] {
    return this.#placeable(measureModels(this.#catalog.models(), this.#cluster, this.#loads, now), now);
  }
  /** Parked models need no place. */
  #placeable(models: MeasuredModel[], now: Instant): MeasuredModel[] {
    const { unplaced } = this.#parking.now(this.#placementStore.placement, now);
    return unplaced.size === 0 ? models : models.filter(({ number }) => !unplaced.has(number));
  }

  #replan(models: readonly MeasuredModel[], now: Instant, mayBalance: boolean): void {
    const { placement } = this.#placementStore;
    const subClusters = this.#cluster.subClusters();
    const executors = this.#cluster.executors(this.#runtime.registry);
    this.#isNews = false;
    if (mayBalance) {
      this.#balancedAt = now;
      this.#hasLeftBand = false;
      this.#plannedRates = new Map(models.map(({ number, rate }) => [number, rate]));
    }
    // Before the first placement executors follow their defaults, which a plan without executors would forbid.
    if (placement === undefined && (subClusters.length === 0 || executors.length === 0)) return;
    this.#plans++;
    const estimate = this.#estimateOf(models);
    const parking = this.#parking.now(placement, now);
    const used = this.#choice.used({ subClusters, placement, models, executors });
    const rateMax = this.#rateMax(models);
    const plan = planPlacement({
      subClusters,
      closing: new Set(subClusters.filter((subCluster) => !used.includes(subCluster))),
      ...(rateMax !== undefined && { rateMax }),
      carries: (numbers, gpus) => estimate.timesOf(numbers, gpus),
      carriesCost: estimate.cost,
      models: models.map((model) => {
        const marks = this.#moves.marksOf(model.number);
        return { ...model, ...marks, isPinned: marks.isPinned === true || parking.waking.has(model.number) };
      }),
      executors,
      before: parking.before,
      awaited: this.#cluster.awaited(placement, now, this.#config.epoch),
      costMax: this.#moves.budget(models, this.#config.budgetShare ?? BUDGET_SHARE, now),
      mayBalance,
      seed: this.#placementStore.nextEpoch,
    });
    this.#plan = plan;
    this.#moves.note(plan.modelMoves, now);
    this.#reasons.note(plan, now);
    const { models: served, gpus, parked } = loadWaking(plan, parking, executors);
    if (!isSamePlace(placement, { models: served, gpus }) || !isSameParking(placement?.parked, parked)) {
      const { modelMoves, executorMoves, arrived, leftOut } = plan;
      const counts = {
        moves: modelMoves.length,
        arrived: arrived.length,
        gpus: executorMoves.length,
        leftOut: leftOut.length,
        parked: parked.length,
      };
      const epoch = this.#placementStore.nextEpoch;
      this.#runtime.log.info({ epoch, ...counts }, "plans");
      const some = parked.length > 0 && { parked };
      this.#placementStore.write({ epoch, madeAt: now, models: served, gpus, ...some });
    }
    this.#report(models, now);
  }

  #report(models: readonly MeasuredModel[], now: Instant): void {
    if (this.#plan === undefined) return;
    this.#reportedAt = now;
    this.#placementStore.writeReport(
      reportOf({
        at: now,
        epoch: this.#placementStore.placement?.epoch ?? 0,
        plan: this.#plan,
        models,
        inventories: this.#cluster.inventories(this.#runtime.registry),
        reasons: this.#reasons,
        advised: this.#advised,
        estimate: this.#estimateOf(models),
        division: this.#choice.division,
        busyOf: (subCluster) => this.#busyOf(subCluster),
        rateMax: this.#rateMax(models),
        dispersionOf: (number) => this.#adviser.dispersionOf(number),
      }),
    );
  }

  #estimateOf(models: readonly MeasuredModel[]): CapacityEstimate {
    const inventories = this.#cluster.inventories(this.#runtime.registry);
    return new CapacityEstimate(models, (number) => this.#adviser.dispersionOf(number), inventories);
  }
  #busyOf(subCluster: string): number | undefined {
    return this.#loads.busyOfRanker(this.#cluster.leaderOf(subCluster), this.#now());
  }
  #rateMax(models: readonly MeasuredModel[]): number | undefined {
    const { placement } = this.#placementStore;
    return this.#choice.rateMax({ placement, models, busyOf: (subCluster) => this.#busyOf(subCluster) });
  }

  /** Looks once a window whether other sub-clusters should be used. */
  #choose(models: readonly MeasuredModel[], now: Instant): void {
    const { placement, nextEpoch } = this.#placementStore;
    if (placement === undefined || !this.#choice.isDue(now)) return;
    const subClusters = this.#cluster.subClusters();
    const executors = this.#cluster.executors(this.#runtime.registry);
    const estimate =
      subClusters.length < 2
        ? undefined
        : this.#estimateOf(models).ofDivision(subClusters.length, executors, nextEpoch);
    const busyOf = (subCluster: string): number | undefined => this.#busyOf(subCluster);
    if (this.#choice.hear({ subClusters, placement, models, executors, busyOf }, estimate, now)) this.#isNews = true;
  }

  #advise(): void {
    const now = this.#now();
    if (!this.#isOnDuty) return this.#parking.rest();
    if (between(this.#startedAt, now) < RATES_AFTER) return;
    const measured = measureModels(this.#catalog.models(), this.#cluster, this.#loads, now);
    if (this.#parking.look(this.#placementStore.placement, now)) this.#isNews = true;
    const models = this.#placeable(measured, now);
    this.#choose(models, now);
    this.#hasLeftBand ||= models.some(({ number, rate }) => isOutOfBand(this.#plannedRates.get(number) ?? 0, rate));
    let gpus = 0;
    for (const peer of this.#runtime.registry.ofRole("executor")) gpus += peer.gpus?.length ?? 0;
    this.#advised = this.#adviser.hear(
      {
        gpus,
        subClusters: new Set(this.#placementStore.placement?.models.map(({ subCluster }) => subCluster)).size,
        measured: this.#loads.busy(now),
        // The parked ones too: the adviser forgets what it has learnt when models come or go.
        models: measured.map(({ number, sloMs, workMs, load }) => ({ ...load, number, sloMs, work: workMs })),
      },
      now,
    );
    this.#advice.add(ScalingAdvised, this.#advised);
    this.#ports.bus.publish(this.#runtime.subjects.advice, this.#advice.take());
  }

  #figures(): Record<string, number> {
    const placement = this.#placementStore.placement;
    const { advice = 0, gpus = 0, badRate = 0, idleShare = 0 } = this.#advised ?? {};
    return {
      executors: this.#cluster.executors(this.#runtime.registry).length,
      subClusters: this.#cluster.subClusters().length,
      subClustersUsed: this.#choice.division?.used ?? 1,
      epoch: placement?.epoch ?? 0,
      placed: placement?.models.length ?? 0,
      moving: placement?.models.filter(({ next }) => next !== undefined).length ?? 0,
      leftOut: this.#plan?.leftOut.length ?? 0,
      parked: placement?.parked?.length ?? 0,
      plans: this.#plans,
      written: this.#placementStore.written,
      conflicts: this.#placementStore.conflicts,
      // The number of accelerators there should be: `tutti_advice_accelerators`.
      adviceAccelerators: gpus + advice,
      gpus,
      badRate,
      idleShare,
      ...this.#rollouts.figures,
    };
  }

  #now(): Instant {
    return this.#ports.clock.now();
  }
}
