/** Ownership of models: when this batcher may get any, which it takes or hands on, and when it may leave. */
import type { Alarm } from "@tutti/ports/clock";
import { type Heartbeat, ModelOffered } from "@tutti/protocol";
import { type ActorKey, type Instant, NEVER, after, seconds } from "@tutti/units";
import type { Catalog, CatalogModel } from "../../runtime/catalog.ts";
import type { ActorConfig, ActorPorts } from "../../runtime/ports.ts";
import type { ActorRuntime } from "../../runtime/actor-runtime.ts";
import type { RankerRouter } from "../ranker-router.ts";
import type { Dispatcher } from "../dispatcher.ts";
import { MODEL_LOAD, type OwnedModel } from "./balance.ts";
import { ModelMigration } from "./model-migration.ts";
import { LoadBalancer } from "./load-balancer.ts";
import { ModelLeases } from "./model-leases.ts";
import type { ModelLoads } from "./model-loads.ts";
import type { ModelThreads } from "../model-threads.ts";

/** How long a leaving batcher waits for others to take its models. After that they inherit them. */
const LEAVE_WITHIN = seconds(2);

export interface ModelOwnershipOptions {
  readonly ports: ActorPorts;
  readonly config: ActorConfig;
  readonly runtime: ActorRuntime;
  readonly router: RankerRouter;
  readonly dispatcher: Dispatcher;
  readonly catalog: () => Catalog;
  readonly threads: () => ModelThreads;
  readonly loads: ModelLoads;
}

export class ModelOwnership {
  readonly leases: ModelLeases;
  readonly #options: ModelOwnershipOptions;
  readonly #balancer: LoadBalancer;
  readonly #migration: ModelMigration;
  readonly #inheriting: Alarm;
  /** Batchers that have ever taken models, and whether they still do. */
  readonly #takers = new Map<ActorKey, boolean>();
  /** Time from which every living peer must have been heard. */
  #knowsPeersAt: Instant = NEVER;
  /** Whether this batcher knows everything that it needs to serve a model. */
  #isReady = false;
  #leaveUntil: Instant | undefined;

  constructor(options: ModelOwnershipOptions) {
    this.#options = options;
    const { ports, config, runtime, catalog, threads } = options;
    const { registry } = runtime;
    this.leases = new ModelLeases({
      clock: ports.clock,
      peerTimeout: config.peerTimeout,
      store: ports.store,
      catalog,
      self: config.key,
      batchers: () => {
        const batchers = new Map([[config.key, this.takes]]);
        for (const { key, takes } of registry.ofRole("batcher")) batchers.set(key, takes === true);
        return batchers;
      },
      leaving: () => this.leaving,
      knowsPeers: () => ports.clock.now() >= this.#knowsPeersAt,
      goneAt: (batcher) => registry.goneAt(batcher),
      onStranger: (batcher) => runtime.askAfter(batcher, () => this.leases.claimAll()),
    });
    this.#balancer = new LoadBalancer({
      clock: ports.clock,
      self: config.key,
      owned: () => this.#owned(),
      others: () => this.#otherLoads(),
      leaving: () => this.leaving,
    });
    this.#migration = new ModelMigration({
      clock: ports.clock,
      self: config.key,
      catalog,
      moves: () => this.#balancer.moves,
      takes: (batcher) => registry.get(batcher)?.takes === true,
      leaving: () => this.leaving,
      onPassing: (modelNumber) => threads().retune(modelNumber),
      offer: (heir, model) => this.#offer(heir, model),
    });
    this.#inheriting = ports.clock.alarm(() => this.leases.claimAll());
    runtime.onPacked(ModelOffered, (offered, sender) => this.#onOffered(offered, sender));
  }

  /** Whether this batcher takes models, for heartbeats. */
  get takes(): boolean {
    return this.#isReady && !this.leaving;
  }
  get leaving(): boolean {
    return this.#leaveUntil !== undefined;
  }
  isPassing(modelNumber: number): boolean {
    return this.#migration.isPassing(modelNumber);
  }

  /** Starts to claim leases: the catalog is read, and peers begin to be heard. */
  open(): void {
    const { ports, config } = this.#options;
    this.#knowsPeersAt = after(ports.clock.now(), config.peerTimeout);
    this.#inheriting.set(this.#knowsPeersAt);
    this.leases.claimAll();
  }

  onBeat({ key, takes = false }: Heartbeat): void {
    if (takes === (this.#takers.get(key) ?? false)) return;
    this.#takers.set(key, takes);
    if (takes) this.#balancer.joined(key);
    this.leases.changed();
  }
  onLost(batcher: ActorKey): void {
    this.#takers.delete(batcher);
    this.leases.claimAll();
  }

  /** Runs every 20 ms. */
  tick(): void {
    if (!this.#isReady) this.#becomeReady();
    this.#balancer.tick();
    this.#migration.tick();
  }

  /** Restarts the threads of a model that this batcher holds, under a new term. */
  renew(modelNumber: number): void {
    for (const model of this.#options.catalog().models())
      if (model.spec.number === modelNumber) this.leases.renew(model);
  }

  /** Stops taking models, and hands on the present ones. */
  leave(): void {
    if (this.leaving) return;
    this.#leaveUntil = after(this.#options.ports.clock.now(), LEAVE_WITHIN);
    this.#options.runtime.beat();
    this.#balancer.tick();
    this.#migration.tick();
  }

  /** Whether another batcher takes models or may do so soon: one that has never said so is only starting. */
  get hasHeirs(): boolean {
    const { ports, runtime } = this.#options;
    if (this.#leaveUntil !== undefined && ports.clock.now() > this.#leaveUntil) return false;
    for (const { key } of runtime.registry.ofRole("batcher")) if (this.#takers.get(key) !== false) return true;
    return false;
  }

  close(): void {
    this.#inheriting.clear();
    this.leases.close();
  }

  /**
   * Begins to take models once they could be served at once. A batch needs a leader's grant and the secrets of the
   * ingresses that it pulls from.
   */
  #becomeReady(): void {
    const { router, runtime, dispatcher } = this.#options;
    if (router.leaders.size === 0 || this.leaving || !this.#hasLeaders) return;
    for (const { key } of runtime.registry.ofRole("ingress")) if (!dispatcher.knows(key)) return;
    this.#isReady = true;
    this.#balancer.begin();
    runtime.beat();
    this.leases.changed();
  }

  /**
   * Whether every model's sub-cluster has a leader. A sub-cluster without one for a whole peer time-out no longer keeps
   * us from serving the others.
   */
  get #hasLeaders(): boolean {
    const { catalog, router, ports } = this.#options;
    if (ports.clock.now() >= this.#knowsPeersAt) return true;
    for (const { spec, status } of catalog().models())
      if (status?.state === "ready" && !router.hasLeader(spec.number)) return false;
    return true;
  }

  #offer(heir: ActorKey, model: CatalogModel): void {
    const { name, number } = model.spec;
    const delays = this.#options.threads().delaysOf(model);
    this.#options.runtime.send(heir, ModelOffered, { model: name, number, term: model.lease?.term ?? 0, delays });
  }

  /** Accepts a model that its holder wants to hand to this batcher. */
  #onOffered(offered: ModelOffered, sender: ActorKey): void {
    const model = this.#options.catalog().get(offered.model);
    if (!this.takes || model?.spec.number !== offered.number) return;
    if (model.lease?.batcher !== sender || model.lease.term !== offered.term) return;
    this.#options.threads().expect(offered);
    if (this.#takers.get(sender) === true) this.#balancer.received(offered.number);
    this.leases.accept(model);
  }

  #owned(): OwnedModel[] {
    const owned: OwnedModel[] = [];
    for (const { spec, status, lease } of this.#options.catalog().models())
      if (status?.state === "ready" && lease?.batcher === this.#options.config.key)
        owned.push({ number: spec.number, load: this.#options.loads.of(spec.number) });
    return owned;
  }

  #otherLoads(): ReadonlyMap<ActorKey, number> {
    const loads = new Map<ActorKey, number>();
    for (const { key, takes, load } of this.#options.runtime.registry.ofRole("batcher"))
      if (takes === true) loads.set(key, load ?? this.#loadByNumber(key));
    return loads;
  }

  /** Estimated load of an older batcher, whose heartbeats carry none. */
  #loadByNumber(batcher: ActorKey): number {
    let models = 0;
    for (const { lease } of this.#options.catalog().models()) if (lease?.batcher === batcher) models++;
    return models * MODEL_LOAD;
  }
}
