import type { Alarm, Clock } from "@tutti/ports/clock";
import { MEMORY_UNBOUNDED, memoryOf } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type GpuId, type Instant, type Micros, after, formatBytes, micros, millis } from "@tutti/units";
import { type Catalog, type CatalogModel, PlacementWatcher } from "@tutti/actors/runtime";
import type { RankerLink } from "../batches/ranker-link.ts";
import { type Fit, fitInMemory } from "./memory-fit.ts";
import type { ModelLoader } from "./model-loader.ts";

export interface ModelResidencyOptions {
  readonly clock: Clock;
  readonly store: Store;
  readonly log: Logger;
  readonly catalog: () => Catalog;
  readonly loader: ModelLoader;
  readonly rankerLink: RankerLink;
  readonly gpus: readonly GpuId[];
  /** Sub-cluster of the executor while no placement exists. */
  readonly home: string;
  /** Bound of the memory of all models on one accelerator. */
  readonly memoryBytesMax: number;
  /** Accepted and unfinished batches of a model. */
  readonly accepted: (modelNumber: number) => number;
  /** How long the executor goes on with granted batches after it has said that it leaves. */
  readonly lingerFor: Micros;
  /** How long a model that has left is kept. */
  readonly keptFor: Micros;
  /** Called when the answer to whether accelerators may be granted may have changed. */
  readonly onChange: () => void;
}

/** How long unloading waits before it looks again for accepted batches of the model, which run first. */
const LOOK_AGAIN = millis(20);

/**
 * Follows the placement: the sub-cluster of an executor and the models that it loads.
 *
 *   RS1. It loads the models of its sub-cluster and those that move there (PL1). Before it moves itself, it also loads
 *        those of the other sub-cluster, if memory holds both (PL4).
 *   RS2. A model that leaves is unloaded when no accepted batch of it is left, and not before grants of it that are
 *        under way have come. It is unloaded at once if the executor has left the model's sub-cluster, since no grant
 *        from there is accepted any more.
 *   RS3. The executor leaves one leader before it joins another. In between it lingers and runs what was granted, for
 *        as long as a grant and its batch may take.
 *   RS4. A model that does not fit is not loaded, and the report says how much it takes and how much there is.
 */
export class ModelResidency {
  readonly #options: ModelResidencyOptions;
  readonly #placement: PlacementWatcher;
  /** Models that leave, by name, and when each may be unloaded. */
  readonly #departures = new Map<string, Instant>();
  readonly #departing: Alarm;
  readonly #lingering: Alarm;
  #isPlaced = false;
  #leaving = false;
  #lacks = false;
  /** Whether memory has room for the models of both the present and the next sub-cluster. */
  #holdsBoth = true;
  #begun = false;
  #hasServed = false;
  #keptFor: Micros;

  constructor(options: ModelResidencyOptions) {
    this.#options = options;
    this.#keptFor = options.keptFor;
    this.#placement = new PlacementWatcher(options.store, options.log, () => this.#begun && this.#follow());
    this.#departing = options.clock.alarm(() => this.#depart());
    this.#lingering = options.clock.alarm(() => this.#enter());
  }

  open(ready: () => void): void {
    this.#placement.open(ready);
  }
  /** Starts to follow the placement: the catalog is read, and no peer has been heard yet. */
  begin(): void {
    this.#begun = true;
    this.#follow();
  }
  /** Stops for a drain: no model is loaded or unloaded any more. */
  stop(): void {
    this.#begun = false;
    this.#departing.clear();
    this.#lingering.clear();
    this.#placement.close();
  }

  /**
   * Whether the executor's accelerators may be granted. Any model that is ready in its sub-cluster may be granted
   * (docs/algorithms.md, A4), so none may be missing.
   */
  get serves(): boolean {
    return this.#isPlaced && !this.#leaving && !this.#lacks;
  }

  /** A model changed. */
  onModel(model: CatalogModel): void {
    if (!this.#begun) return;
    if (this.#options.memoryBytesMax === MEMORY_UNBOUNDED) this.#settle([model], () => "fits");
    else this.#settleAll();
    if (this.#advance()) this.#options.onChange();
  }
  onGone({ spec }: CatalogModel): void {
    this.#departures.delete(spec.name);
    this.#options.loader.drop(spec.name);
  }
  /** Loading or unloading ended. */
  onIdle(): void {
    if (!this.#begun) return;
    if (this.#options.memoryBytesMax !== MEMORY_UNBOUNDED) this.#settleAll();
    this.#advance();
  }

  /** Applies the present placement. */
  #follow(): void {
    this.#settleAll();
    if (this.#advance()) this.#options.onChange();
  }

  get #target(): string | undefined {
    return this.#placement.subClusterOfExecutor(this.#options.gpus, this.#options.home);
  }

  /** RS1: whether the model should be loaded here. */
  #stays({ spec, status }: CatalogModel): boolean {
    if (status?.state === "quarantined") return false;
    const [target, { rankerLink }] = [this.#target, this.#options];
    if (target === undefined) return false;
    if (this.#placement.belongs(spec.number, rankerLink.subCluster)) return true;
    return this.#holdsBoth && this.#placement.belongs(spec.number, target);
  }
  /** PL4: whether memory holds the models of both sub-clusters. */
  #weigh(): void {
    const { rankerLink, memoryBytesMax, catalog } = this.#options;
    const [from, to] = [rankerLink.subCluster, this.#target];
    this.#holdsBoth = true;
    if (memoryBytesMax === MEMORY_UNBOUNDED || from === to) return;
    let [bytes, dynamic] = [0, 0];
    for (const model of catalog().models())
      if (this.#placement.belongs(model.spec.number, from) || this.#placement.belongs(model.spec.number, to)) {
        bytes += this.#bytesOf(model);
        dynamic = Math.max(dynamic, this.#dynamicOf(model));
      }
    this.#holdsBoth = bytes + dynamic <= memoryBytesMax;
  }
  #bytesOf({ spec }: CatalogModel): number {
    return this.#options.loader.memoryOf(spec.name) ?? memoryOf(spec);
  }
  /** Known once it has run here. */
  #dynamicOf({ spec }: CatalogModel): number {
    return this.#options.loader.dynamicOf(spec.name) ?? 0;
  }

  #settleAll(): void {
    this.#weigh();
    const models = [...this.#options.catalog().models()];
    const { memoryBytesMax } = this.#options;
    if (memoryBytesMax === MEMORY_UNBOUNDED) return this.#settle(models, () => "fits");
    const [staying, others] = [models.filter((model) => this.#stays(model)), models.filter((one) => !this.#stays(one))];
    // Models that are scheduled here come before those that will be.
    const rank = (model: CatalogModel): number =>
      this.#placement.subClusterOf(model.spec.number) === this.#options.rankerLink.subCluster ? 0 : 1;
    staying.sort((a, b) => rank(a) - rank(b) || a.spec.number - b.spec.number);
    const { loader } = this.#options;
    const residents = staying.map((model) => {
      const { name } = model.spec;
      return { name, bytes: this.#bytesOf(model), dynamic: this.#dynamicOf(model), isHere: loader.holds(model.spec) };
    });
    const leaving = others
      .filter(({ spec }) => loader.holds(spec))
      .reduce((sum, model) => sum + this.#bytesOf(model), 0);
    const fits = fitInMemory(residents, { max: memoryBytesMax, leaving });
    const used = residents.reduce((sum, { name, bytes }) => sum + (fits.get(name) === "never" ? 0 : bytes), 0);
    this.#settle([...others, ...staying], ({ spec }) => fits.get(spec.name) ?? "never", used);
  }

  #settle(models: readonly CatalogModel[], fitOf: (model: CatalogModel) => Fit, used = 0): void {
    const { loader } = this.#options;
    for (const model of models) {
      const { name } = model.spec;
      if (!this.#stays(model)) this.#dismiss(model);
      else {
        this.#departures.delete(name);
        const fit = fitOf(model);
        if (fit === "fits") loader.want(model);
        else if (fit === "never") loader.refuse(model, this.#refusal(model, used)); // RS4
      }
    }
  }
  #refusal(model: CatalogModel, used: number): string {
    const { memoryBytesMax: max } = this.#options;
    const left = formatBytes(Math.max(0, max - used));
    return `its weights take ${formatBytes(this.#bytesOf(model))}, and of the ${formatBytes(max)} that this executor may use ${left} are left: give it more memory (--memory), or place the model elsewhere`;
  }

  /** @returns whether `serves` has changed */
  #advance(): boolean {
    const { rankerLink } = this.#options;
    const target = this.#target;
    const before = this.serves;
    this.#isPlaced = target !== undefined;
    if (target === undefined || target === rankerLink.subCluster) {
      this.#leaving = false;
      this.#lingering.clear();
    } else if (!this.#leaving && (!before || !this.#holdsBoth || !this.#lacksIn(target))) this.#leave();
    this.#lacks = this.#lacksIn(rankerLink.subCluster);
    this.#hasServed ||= this.serves;
    return before !== this.serves;
  }
  #lacksIn(subCluster: string): boolean {
    const { catalog, loader } = this.#options;
    for (const { spec, status } of catalog().models())
      if (status?.state === "ready" && this.#placement.subClusterOf(spec.number) === subCluster)
        if (loader.get(spec.name) === undefined) return true;
    return false;
  }

  /** RS3: stops serving, and enters the next sub-cluster after a while. */
  #leave(): void {
    const { clock, lingerFor } = this.#options;
    if (!this.#hasServed) return this.#enter();
    this.#leaving = true;
    this.#lingering.set(after(clock.now(), lingerFor));
  }
  #enter(): void {
    const { rankerLink, log, clock, keptFor, onChange } = this.#options;
    const target = this.#target;
    this.#leaving = false;
    if (target === undefined) return;
    log.info({ from: rankerLink.subCluster, to: target }, "goes to another sub-cluster");
    rankerLink.enter(target);
    // RS2: no grant from there is accepted any more.
    this.#keptFor = micros(0);
    for (const name of this.#departures.keys()) this.#departures.set(name, clock.now());
    this.#settleAll();
    this.#keptFor = keptFor;
    this.#arm();
    this.#advance();
    onChange();
  }

  /** RS2: schedules the unloading of a model. */
  #dismiss({ spec, status }: CatalogModel): void {
    const { loader, clock, rankerLink, log } = this.#options;
    const { name, number } = spec;
    if (status?.state === "quarantined" || loader.get(name) === undefined) {
      this.#departures.delete(name);
      return loader.drop(name);
    }
    const known = this.#departures.get(name);
    const at = after(clock.now(), this.#keptFor);
    if (known !== undefined && known <= at) return;
    this.#departures.set(name, at);
    log.info({ model: name, number, subCluster: rankerLink.subCluster }, "it has left: it will be unloaded");
    this.#arm();
  }

  #arm(): void {
    let next: Instant | undefined;
    for (const at of this.#departures.values()) if (next === undefined || at < next) next = at;
    if (next !== undefined) this.#departing.set(next);
  }
  #depart(): void {
    const { clock, loader, accepted, catalog } = this.#options;
    const now = clock.now();
    for (const [name, at] of this.#departures) {
      if (at > now) continue;
      const number = catalog().get(name)?.spec.number;
      if (number !== undefined && accepted(number) > 0) this.#departures.set(name, after(now, LOOK_AGAIN));
      else {
        this.#departures.delete(name);
        loader.drop(name);
      }
    }
    this.#arm();
  }
}
