import type { Alarm, Clock } from "@tutti/ports/clock";
import { BUCKET, leaseKeys } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { type ActorKey, type Instant, type Micros, NEVER, after } from "@tutti/units";
import { toJson } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../catalog.ts";
import { type Holding, heirsOf } from "./spread.ts";

export interface ModelLeasesOptions {
  readonly clock: Clock;
  /** A peer that is silent for so long is dead. */
  readonly peerTimeout: Micros;
  readonly store: Store;
  readonly catalog: () => Catalog;
  readonly self: ActorKey;
  /** The batchers that are alive, ourselves included, and whether each takes models. */
  readonly batchers: () => ReadonlyMap<ActorKey, boolean>;
  /** Whether we leave: then nothing is taken. */
  readonly leaving: () => boolean;
  /** False until every living peer must have been heard: before that, silence of a lease's holder says nothing. */
  readonly knowsPeers: () => boolean;
  /** When its death was proved, by its goodbye or by the server; undefined if it is only silent. */
  readonly goneAt: (batcher: ActorKey) => Instant | undefined;
  /** A lease's holder was never heard, and perhaps is gone. */
  readonly onStranger: (batcher: ActorKey) => void;
}

/**
 * Each ModelThread lives in exactly one batcher: who holds the model's lease, taken by compare-and-set; its revision is
 * the term. Who takes a model that has no living holder is worked out in spread.ts, who should hand one on in
 * balance.ts.
 *
 * Who writes a lease is alive: it is left alone for a time-out by who only doesn't hear it. Two batchers that hear the
 * store and not each other would otherwise take every model from one another as fast as the store answers, and each
 * move costs all that waits. One that is proved dead is inherited from at once, if it has not written the lease since
 * then: what was proved was that its connection had gone, and it may be back without having been heard. It can only be
 * proved dead anew when its connection has gone anew, so that can't go back and forth.
 */
export class ModelLeases {
  readonly #options: ModelLeasesOptions;
  readonly #trying = new Set<number>();
  /** Since when each model's present term is known here. */
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
  /** The model is no more. */
  forget(modelNumber: number): void {
    this.#terms.delete(modelNumber);
  }

  /**
   * Something about a model or a batcher changed: all that changed in this turn of the event loop is looked at
   * together.
   */
  changed(): void {
    this.#wakeAt(this.#options.clock.now());
  }

  /** Takes what is ours to take. */
  claimAll(): void {
    const { clock, self, batchers, leaving, knowsPeers, goneAt, onStranger } = this.#options;
    const now = clock.now();
    const alive = batchers();
    const takers = [...alive].filter(([, takes]) => takes).map(([key]) => key);
    // While nobody is sure to serve, as when all of a cluster starts, whoever comes first will do.
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

  /** Its holder offers a model under its present term. */
  accept(model: CatalogModel): void {
    if (model.status?.state === "ready" && !this.#trying.has(model.spec.number)) this.#take(model);
  }
  /** A new term of a model that we hold: what was said of it under the old one is void for everybody. */
  renew(model: CatalogModel): void {
    if (model.lease?.batcher === this.#options.self && !this.#trying.has(model.spec.number)) this.#take(model);
  }

  #take(model: CatalogModel): void {
    const { store, self } = this.#options;
    const { number } = model.spec;
    this.#trying.add(number);
    const value = toJson({ batcher: self });
    store.update(BUCKET.leases, leaseKeys.model(number), value, model.lease?.term ?? 0, (result) => {
      // Won or lost, the watch tells everybody, ourselves included, who holds it; a store that did not answer is asked
      // again by the next claimAll.
      this.#trying.delete(number);
      if (result !== "conflict") return;
      // Who won may have been told while we were still trying, and may be nobody that we hear.
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
