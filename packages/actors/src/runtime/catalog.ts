import {
  BUCKET,
  BatcherLease,
  type ModelFaults,
  type ModelRunTimes,
  type ModelSpec,
  type ModelStatus,
  Reservation,
  faultKeys,
  isModelFaults,
  isModelRunTimes,
  isModelSpec,
  isModelStatus,
  leaseKeys,
  runTimesKeys,
  statusWith,
  variantView,
} from "@tutti/protocol";
import type { Entry, Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type ActorKey, type ThreadId, modelNumberOf } from "@tutti/units";
import { readStored } from "@tutti/wire";
import { EntryReader } from "./entry-reader.ts";

/** A model as an actor knows it: its specification, its status, and the batcher and term of its lease. */
export interface CatalogModel {
  readonly spec: ModelSpec;
  /** As published by the profiler; `quarantined` if its faults say so. */
  readonly status: ModelStatus | undefined;
  readonly lease: ModelLease | undefined;
  /** Faults that it caused in its executors since it last served. */
  readonly faults?: ModelFaults | undefined;
  /** Isolated running times of its requests, if the profiler has measured them. */
  readonly times?: ModelRunTimes | undefined;
}
export interface ModelLease {
  readonly batcher: ActorKey;
  /** Revision of the lease, which fences messages of earlier holders (T5). */
  readonly term: number;
}

export interface CatalogWatcher {
  /** Something about the model changed. @param before - its state before the change */
  onChange(model: CatalogModel, before: CatalogModel | undefined): void;
  onGone?(model: CatalogModel): void;
}

/**
 * Mirrors the models of the cluster from the buckets of models, profiles and leases. Unreadable entries are reported
 * and ignored: a bad one must not take the others down (T8).
 */
export class Catalog {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #reader: EntryReader;
  readonly #watcher: CatalogWatcher;
  readonly #byName = new Map<string, CatalogModel>();
  /** Models that were unloaded and may come back, by key. */
  readonly #unloaded = new Map<string, ModelSpec>();
  readonly #byNumber = new Map<number, CatalogModel>();
  /** Variants by name. If several families have a variant, it is that of the family that answers. */
  #variants: ReadonlyMap<string, CatalogModel> = new Map();
  readonly #statuses = new Map<string, ModelStatus>();
  readonly #leases = new Map<number, ModelLease>();
  /** Revisions of leases that can't be read. */
  readonly #unreadableLeases = new Map<number, number>();
  readonly #faults = new Map<number, ModelFaults>();
  readonly #times = new Map<number, ModelRunTimes>();
  readonly #watches: { stop(): void }[] = [];
  #waitingFor = 3;
  #onReady: () => void = () => undefined;

  constructor(store: Store, log: Logger, watcher: CatalogWatcher) {
    this.#store = store;
    this.#log = log;
    this.#reader = new EntryReader(log);
    this.#watcher = watcher;
  }

  /**
   * Opens the watches. `ready` is called once all present entries have been delivered: a starting actor reads the
   * current terms before it accepts messages under any (T5).
   */
  open(ready: () => void): void {
    this.#onReady = ready;
    this.#watch(
      BUCKET.leases,
      "model.",
      (entry) => this.#onLease(entry),
      (key) => this.#onLeaseGone(key),
    );
    this.#watch(
      BUCKET.profiles,
      "",
      (entry) => {
        if (entry.key.startsWith(faultKeys.prefix)) this.#onFaults(entry);
        else if (entry.key.startsWith(runTimesKeys.prefix)) this.#onTimes(entry);
        else this.#onStatus(entry);
      },
      (key) => {
        if (key.startsWith(faultKeys.prefix)) this.#onFaultsGone(key);
        else if (key.startsWith(runTimesKeys.prefix)) this.#onTimesGone(key);
        else this.#onStatusGone(key);
      },
    );
    this.#watch(
      BUCKET.models,
      "",
      (entry) => this.#onSpec(entry),
      (key) => this.#onSpecGone(key),
    );
  }

  get ready(): boolean {
    return this.#waitingFor === 0;
  }
  get(name: string): CatalogModel | undefined {
    return this.#byName.get(name);
  }
  /**
   * The model that answers requests under this name: the model itself, or a family that has it as a variant. Both exist
   * while one is made of the other; then the one that serves answers, and of both or neither the newer.
   */
  target(name: string): CatalogModel | undefined {
    const own = this.#byName.get(name);
    if (this.#variants.size === 0) return own;
    const variant = this.#variants.get(name);
    if (own === undefined || variant === undefined) return own ?? variant;
    return own.spec.number < variant.spec.number ? answering(own, variant) : answering(variant, own);
  }
  /** All targets of requests: models, and the variants of families in place of the families. */
  *targets(): IterableIterator<CatalogModel> {
    for (const model of this.#byName.values())
      if (model.spec.family === undefined && this.target(model.spec.name) === model) yield model;
    for (const variant of this.#variants.values()) if (this.target(variant.spec.name) === variant) yield variant;
  }
  ofThread(thread: ThreadId): CatalogModel | undefined {
    return this.#byNumber.get(modelNumberOf(thread));
  }
  unloaded(): IterableIterator<ModelSpec> {
    return this.#unloaded.values();
  }
  models(): IterableIterator<CatalogModel> {
    return this.#byName.values();
  }
  leaseOf(modelNumber: number): ModelLease | undefined {
    return this.#leases.get(modelNumber);
  }
  /** Revision of the model's lease if that can't be read: it counts as nobody's, and is taken by compare-and-set. */
  unreadableLease(modelNumber: number): number | undefined {
    return this.#unreadableLeases.get(modelNumber);
  }

  close(): void {
    for (const watch of this.#watches) watch.stop();
  }

  #watch(bucket: string, prefix: string, onEntry: (entry: Entry) => void, onDelete: (key: string) => void): void {
    this.#watches.push(
      this.#store.watch(bucket, prefix, {
        onEntry,
        onDelete,
        onReady: () => {
          this.#waitingFor--;
          if (this.#waitingFor === 0) this.#onReady();
        },
        onFailure: (failure) =>
          this.#log.warn({ bucket, failure: failure.failure }, "watching the store failed; it is tried again"),
      }),
    );
  }

  #onSpec(entry: Entry): void {
    const reservation = readStored(entry.value, Reservation);
    if (reservation?.unloaded !== undefined) this.#unloaded.set(entry.key, reservation.unloaded);
    if (reservation !== undefined) return;
    const spec = this.#reader.read(isModelSpec, entry, ({ name }) => name === entry.key);
    if (spec !== undefined) this.#put(spec);
  }
  #onSpecGone(key: string): void {
    this.#unloaded.delete(key);
    this.#reader.forget(isModelSpec, key);
    const model = this.#byName.get(key);
    if (model === undefined) return;
    this.#byName.delete(key);
    this.#byNumber.delete(model.spec.number);
    if (model.spec.family !== undefined) this.#indexVariants();
    this.#watcher.onGone?.(model);
  }

  #onStatus(entry: Entry): void {
    const status = this.#reader.read(isModelStatus, entry, ({ name }) => name === entry.key);
    if (status === undefined) return;
    this.#statuses.set(status.name, status);
    const model = this.#byName.get(status.name);
    if (model !== undefined) this.#put(model.spec);
  }
  #onStatusGone(key: string): void {
    this.#reader.forget(isModelStatus, key);
    this.#statuses.delete(key);
    const model = this.#byName.get(key);
    if (model !== undefined) this.#put(model.spec);
  }

  #onFaults(entry: Entry): void {
    const faults = this.#reader.read(isModelFaults, entry, ({ number }) => faultKeys.model(number) === entry.key);
    if (faults === undefined) return;
    this.#faults.set(faults.number, faults);
    this.#judge(faults.number);
  }
  #onFaultsGone(key: string): void {
    this.#reader.forget(isModelFaults, key);
    const modelNumber = Number(key.slice(faultKeys.prefix.length));
    this.#faults.delete(modelNumber);
    this.#judge(modelNumber);
  }
  #onTimes(entry: Entry): void {
    const times = this.#reader.read(isModelRunTimes, entry, ({ number }) => runTimesKeys.model(number) === entry.key);
    if (times === undefined) return;
    const known = this.#times.get(times.number);
    // Profiles for plans are made of the buckets, which takes milliseconds: where only `learned` is new they stay.
    const isSame = known !== undefined && JSON.stringify(known.buckets) === JSON.stringify(times.buckets);
    this.#times.set(times.number, isSame ? { ...times, buckets: known.buckets } : times);
    this.#judge(times.number);
  }
  #onTimesGone(key: string): void {
    this.#reader.forget(isModelRunTimes, key);
    const modelNumber = Number(key.slice(runTimesKeys.prefix.length));
    this.#times.delete(modelNumber);
    this.#judge(modelNumber);
  }
  #judge(modelNumber: number): void {
    const model = this.#byNumber.get(modelNumber);
    if (model !== undefined) this.#put(model.spec);
  }

  #onLease(entry: Entry): void {
    const modelNumber = Number(entry.key.slice(leaseKeys.model(0).length - 1));
    if (!Number.isSafeInteger(modelNumber)) return;
    const lease = this.#reader.read(BatcherLease, entry);
    if (lease === undefined) {
      // Its holder is unknown: requests must not go to the former one.
      this.#leases.delete(modelNumber);
      this.#unreadableLeases.set(modelNumber, entry.revision);
    } else {
      this.#leases.set(modelNumber, { batcher: lease.batcher, term: entry.revision });
      this.#unreadableLeases.delete(modelNumber);
    }
    this.#judge(modelNumber);
  }
  #onLeaseGone(key: string): void {
    const modelNumber = Number(key.slice(leaseKeys.model(0).length - 1));
    this.#judge(modelNumber);
  }

  /** Returns a status only if it is of this model and version; that of a predecessor says nothing. */
  #matching(spec: ModelSpec, status: ModelStatus | undefined): ModelStatus | undefined {
    return status !== undefined && status.number === spec.number && status.version === spec.version
      ? status
      : undefined;
  }

  /** Updates a model from all that is known of it now. */
  #put(spec: ModelSpec): void {
    const faults = this.#faults.get(spec.number);
    const status = statusWith(spec, this.#matching(spec, this.#statuses.get(spec.name)), faults);
    const known = this.#times.get(spec.number);
    const times = known?.version === spec.version ? known : undefined;
    const model: CatalogModel = { spec, status, lease: this.#leases.get(spec.number), faults, times };
    const before = this.#byName.get(spec.name);
    if (before !== undefined && before.spec.number !== spec.number) this.#byNumber.delete(before.spec.number);
    this.#byName.set(spec.name, model);
    this.#byNumber.set(spec.number, model);
    if (spec.family !== undefined || before?.spec.family !== undefined) this.#indexVariants();
    this.#watcher.onChange(model, before);
  }

  #indexVariants(): void {
    const families = [...this.#byName.values()].filter(({ spec }) => spec.family !== undefined);
    const found = new Map<string, CatalogModel>();
    for (const family of families.sort((a, b) => a.spec.number - b.spec.number)) {
      for (const [i, { name }] of family.spec.family!.variants.entries()) {
        const variant = { ...family, spec: variantView(family.spec, i) };
        found.set(name, answering(found.get(name), variant));
      }
    }
    this.#variants = found;
  }
}

/** Chooses between two models of the same name: the one that serves, and of both or neither the newer. */
const answering = (older: CatalogModel | undefined, newer: CatalogModel): CatalogModel =>
  older === undefined || isServed(newer) || !isServed(older) ? newer : older;

const isServed = ({ status, lease }: CatalogModel): boolean => status?.state === "ready" && lease !== undefined;
