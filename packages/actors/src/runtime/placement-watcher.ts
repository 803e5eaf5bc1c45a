import { BUCKET, DEFAULT_SUB_CLUSTER, PLACEMENT_KEY, type Placement, isPlacement } from "@tutti/protocol";
import type { Entry, Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import type { GpuId } from "@tutti/units";
import { EntryReader } from "./entry-reader.ts";

/**
 * Mirrors the placement, which assigns models and accelerators to sub-clusters, from the bucket of plans. An entry that
 * is unreadable, or older than the known one, is reported and ignored (T8). Before the first placement, and once the
 * entry is deleted, everything belongs to the default sub-cluster.
 */
export class PlacementWatcher {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #reader: EntryReader;
  readonly #onChange: () => void;
  readonly #models = new Map<number, { readonly subCluster: string; readonly next?: string }>();
  readonly #parked = new Map<number, { readonly next?: string }>();
  readonly #gpus = new Map<GpuId, string>();
  #watch: { stop(): void } | undefined;
  #placement: Placement | undefined;
  #ready = false;

  /** @param onChange - not called for the placement that is present when the watcher is opened */
  constructor(store: Store, log: Logger, onChange: () => void = () => undefined) {
    this.#store = store;
    this.#log = log;
    this.#reader = new EntryReader(log);
    this.#onChange = onChange;
  }

  /** `ready` is called once the present entry has been delivered. */
  open(ready: () => void): void {
    this.#watch = this.#store.watch(BUCKET.plan, PLACEMENT_KEY, {
      onEntry: (entry) => entry.key === PLACEMENT_KEY && this.#onEntry(entry),
      onDelete: (key) => key === PLACEMENT_KEY && this.#take(undefined),
      onReady: () => {
        if (this.#ready) return;
        this.#ready = true;
        ready();
      },
      onFailure: ({ failure }) =>
        this.#log.warn({ bucket: BUCKET.plan, failure }, "watching the store failed; it is tried again"),
    });
  }
  close(): void {
    this.#watch?.stop();
  }

  /** Undefined: there is no placement yet. */
  get placement(): Placement | undefined {
    return this.#placement;
  }
  /** Sub-cluster that schedules the model; undefined: none yet. */
  subClusterOf(modelNumber: number): string | undefined {
    return this.#placement === undefined ? DEFAULT_SUB_CLUSTER : this.#models.get(modelNumber)?.subCluster;
  }
  /** Sub-cluster to which the model moves (PL3), or where it is loaded after it was parked (PL6). */
  nextOf(modelNumber: number): string | undefined {
    return (this.#models.get(modelNumber) ?? this.#parked.get(modelNumber))?.next;
  }
  /** PL6: whether the model is parked, or about to be. */
  isParked(modelNumber: number): boolean {
    return this.#parked.has(modelNumber);
  }
  /** Number of those models. */
  get parked(): number {
    return this.#parked.size;
  }
  /** PL1: whether the sub-cluster has the model, or will have it. */
  belongs(modelNumber: number, subCluster: string | undefined): boolean {
    if (subCluster === undefined) return false;
    return this.subClusterOf(modelNumber) === subCluster || this.nextOf(modelNumber) === subCluster;
  }
  /**
   * PL5: the sub-cluster of an executor.
   *
   * @param byDefault - its sub-cluster while there is no placement
   * @returns undefined: it waits to be placed
   */
  subClusterOfExecutor(gpus: readonly GpuId[], byDefault: string = DEFAULT_SUB_CLUSTER): string | undefined {
    if (this.#placement === undefined) return byDefault;
    return this.#gpus.get(Math.min(...gpus) as GpuId);
  }

  #onEntry(entry: Entry): void {
    const { key, revision } = entry;
    const value = this.#reader.read(isPlacement, entry);
    if (value === undefined) return;
    const known = this.#placement?.epoch ?? -1;
    if (value.epoch < known)
      this.#log.warn({ key, revision, epoch: value.epoch, known }, "ignored a placement that is older than another");
    if (value.epoch > known) this.#take(value);
  }

  #take(placement: Placement | undefined): void {
    this.#placement = placement;
    this.#models.clear();
    this.#parked.clear();
    this.#gpus.clear();
    for (const model of placement?.models ?? []) this.#models.set(model.number, model);
    for (const model of placement?.parked ?? []) this.#parked.set(model.number, model);
    for (const { gpu, subCluster } of placement?.gpus ?? []) this.#gpus.set(gpu, subCluster);
    if (this.#ready) this.#onChange();
  }
}
