import type { Alarm, Clock } from "@tutti/ports/clock";
import { BUCKET, BatcherLease, leaseKeys } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type ActorKey, type Instant, type Micros, NEVER, after } from "@tutti/units";
import { writeStored } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../../runtime/catalog.ts";
import { type Holding, heirsOf } from "./spread.ts";

export interface ModelLeasesOptions {
  readonly clock: Clock;
  /** A peer that is silent for this long is dead. */
  readonly peerTimeout: Micros;
  readonly store: Store;
  readonly catalog: () => Catalog;
  readonly self: ActorKey;
  /** The living batchers, including this one, and whether each takes models. */
  readonly batchers: () => ReadonlyMap<ActorKey, boolean>;
  /** Whether this batcher leaves: then it takes nothing. */
  readonly leaving: () => boolean;
  /**
   * False until every living peer must have been heard. Before that, the silence of a lease's holder proves nothing.
   */
  readonly knowsPeers: () => boolean;
  /** When the batcher's death was proved, by its goodbye or by the server; undefined if it is only silent. */
  readonly goneAt: (batcher: ActorKey) => Instant | undefined;
  /** Called for a lease holder that was never heard, and may be gone. */
  readonly onStranger: (batcher: ActorKey) => void;
}

/**
 * Ownership by lease: each ModelThread lives in the one batcher that holds the model's lease. A batcher takes a lease
 * by compare-and-set; its revision is the term. spread.ts assigns models that have no living holder, and balance.ts
 * decides which models to hand on.
 *
 * A recent lease write proves that its owner is alive: a batcher that merely does not hear the owner leaves the lease
 * alone for a time-out. Two batchers that reach the store but not each other would otherwise take every model from one
 * another as fast as the store answers, and each move delays all requests that wait. A model of an owner that is proved
 * dead is taken at once, unless the owner has written the lease since then: the proof only showed that its connection
 * had gone, and the owner may be back without having been heard. A second proof needs a second lost connection, so
 * ownership can't go back and forth.
 */
export class ModelLeases {
  readonly #options: ModelLeasesOptions;
  readonly #trying = new Set<number>();
  /** Present term of each model, and when it became known here. */
  readonly #terms = new Map<number, { readonly term: number; readonly since: Instant }>();
  readonly #alarm: Alarm;
  #alarmAt: Instant = NEVER;

  constructor(options: ModelLeasesOptions) {
    this.#options = options;
    this.#alarm = options.clock.alarm(() => {
      this.#alarmAt = NEVER;
      this.claimAll();
    });
  }

  close(): void {
    this.#alarm.clear();
  }
  /** Forgets a removed model. */
  forget(modelNumber: number): void {
    this.#terms.delete(modelNumber);
  }

  /**
   * Schedules a look at all leases after a model or a batcher changed. All changes of one turn of the event loop share
   * one look.
   */
  changed(): void {
    this.#wakeAt(this.#options.clock.now());
  }

  /** Claims every lease that falls to this batcher. */
  claimAll(): void {
    const { clock, self, batchers, leaving, knowsPeers, goneAt, onStranger } = this.#options;
    const now = clock.now();
    const alive = batchers();
    const takers = [...alive].filter(([, takes]) => takes).map(([key]) => key);
    // While no batcher is sure to serve, as when a whole cluster starts, the first to claim a model gets it.
    if (takers.length === 0 && !leaving()) takers.push(self);
    const homeless = new Map<number, CatalogModel>();
    const holdings: Holding[] = [];
    for (const model of this.#options.catalog().models()) {
      const { spec, lease } = model;
      this.#note(spec.number, lease?.term, now);
      if (model.status?.state !== "ready") continue;
      const holder = lease !== undefined && alive.has(lease.batcher) ? lease.batcher : undefined;
      if (holder === undefined && lease !== undefined && !knowsPeers() && goneAt(lease.batcher) === undefined) {
        onStranger(lease.batcher);
        continue;
      }
      if (holder === undefined) homeless.set(spec.number, model);
      holdings.push({ number: spec.number, holder });
    }
    for (const [number, heir] of heirsOf(holdings, takers)) if (heir === self) this.#claim(homeless.get(number)!, now);
  }

  #claim(model: CatalogModel, now: Instant): void {
    if (this.#trying.has(model.spec.number)) return;
    const mayTakeAt = this.#mayTakeAt(model, now);
    if (mayTakeAt <= now) this.#take(model);
    else this.#wakeAt(mayTakeAt);
  }

  #mayTakeAt({ spec, lease }: CatalogModel, now: Instant): Instant {
    if (lease === undefined) return now;
    const since = this.#terms.get(spec.number)?.since ?? now;
    const goneAt = this.#options.goneAt(lease.batcher);
    return goneAt !== undefined && goneAt >= since ? now : after(since, this.#options.peerTimeout);
  }
  #note(modelNumber: number, term: number | undefined, now: Instant): void {
    if (term !== undefined && this.#terms.get(modelNumber)?.term !== term)
      this.#terms.set(modelNumber, { term, since: now });
  }

  /** Takes over a model that its holder offers under its present term. */
  accept(model: CatalogModel): void {
    if (model.status?.state === "ready" && !this.#trying.has(model.spec.number)) this.#take(model);
  }
  /**
   * Writes a new term for a model that this batcher holds. It voids everything said of the model under the old term.
   */
  renew(model: CatalogModel): void {
    if (model.lease?.batcher === this.#options.self && !this.#trying.has(model.spec.number)) this.#take(model);
  }

  #take(model: CatalogModel): void {
    const { store, self } = this.#options;
    const { number } = model.spec;
    this.#trying.add(number);
    const value = writeStored(BatcherLease, { batcher: self });
    const revision = model.lease?.term ?? this.#options.catalog().unreadableLease(number) ?? 0;
    store.update(BUCKET.leases, leaseKeys.model(number), value, revision, (result) => {
      // Won or lost, the watch reports the holder to all batchers, this one included. If the store did not answer, the
      // next claimAll asks again.
      this.#trying.delete(number);
      if (result !== "conflict") return;
      // The watch may have reported the winner while the write was still pending, and the winner may be a batcher that
      // we do not hear.
      const lost = this.#options.catalog().get(model.spec.name);
      if (lost?.lease === undefined) return;
      this.#terms.set(number, { term: lost.lease.term, since: this.#options.clock.now() });
      this.changed();
    });
  }

  #wakeAt(at: Instant): void {
    if (at >= this.#alarmAt) return;
    this.#alarmAt = at;
    this.#alarm.set(at);
  }
}
