import type { Alarm, Clock } from "@tutti/clock";
import { BUCKET, leaseKeys } from "@tutti/protocol";
import type { Store } from "@tutti/store";
import { type ActorKey, type Instant, type Micros, NEVER, after } from "@tutti/units";
import { fnv1a, toJson } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../catalog.ts";

export interface ModelLeasesOptions {
  readonly clock: Clock;
  /** A peer that is silent for so long is dead. */
  readonly peerTimeout: Micros;
  readonly store: Store;
  readonly catalog: () => Catalog;
  readonly self: ActorKey;
  /** The batchers that are alive, ourselves included. */
  readonly alive: () => readonly ActorKey[];
  /** False until every living peer must have been heard: before that, silence of a lease's holder says nothing. */
  readonly knowsPeers: () => boolean;
}

/**
 * Each ModelThread lives in exactly one batcher: who holds the model's lease, taken by compare-and-set; its revision is the term. A free or orphaned
 * model goes to the living batcher of highest rendezvous weight, so that models spread without anybody deciding.
 *
 * Who writes a lease is alive: it is left alone for a time-out, also by who does not hear its holder. Two batchers that hear the store and not each other
 * would otherwise take every model from one another as fast as the store answers, and each move costs all that waits.
 */
export class ModelLeases {
  readonly #options: ModelLeasesOptions;
  readonly #trying = new Set<number>();
  /** Since when each model's present term is known here. */
  readonly #terms = new Map<number, { readonly term: number; readonly since: Instant }>();
  readonly #retry: Alarm;
  #retryAt: Instant = NEVER;

  constructor(options: ModelLeasesOptions) {
    this.#options = options;
    this.#retry = options.clock.alarm(() => {
      this.#retryAt = NEVER;
      this.claimAll();
    });
  }

  close(): void {
    this.#retry.clear();
  }
  /** The model is no more. */
  forget(modelNumber: number): void {
    this.#terms.delete(modelNumber);
  }

  /** Takes what is ours to take; call it when a model becomes ready, a lease is lost, or a batcher joins or dies. */
  claim(model: CatalogModel): void {
    const { self } = this.#options;
    const { number } = model.spec;
    const mayTakeAt = this.#mayTakeAt(model);
    if (model.status?.state !== "ready" || this.#trying.has(number)) return;
    const alive = this.#options.alive();
    if (model.lease !== undefined && (!this.#options.knowsPeers() || alive.includes(model.lease.batcher))) return;
    if (heir(alive, number) !== self) return;
    if (mayTakeAt <= this.#options.clock.now()) return this.#take(model);
    if (mayTakeAt >= this.#retryAt) return;
    this.#retryAt = mayTakeAt;
    this.#retry.set(mayTakeAt);
  }

  #mayTakeAt({ spec, lease }: CatalogModel): Instant {
    const now = this.#options.clock.now();
    if (lease === undefined) return now;
    let known = this.#terms.get(spec.number);
    if (known?.term !== lease.term) this.#terms.set(spec.number, (known = { term: lease.term, since: now }));
    return after(known.since, this.#options.peerTimeout);
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
      // Won or lost, the watch tells everybody, ourselves included, who holds it; a store that did not answer is asked again by the next claimAll.
      this.#trying.delete(number);
      if (result !== "conflict") return;
      // Who won may have been told while we were still trying, and may be nobody that we hear.
      const lost = this.#options.catalog().get(model.spec.name);
      if (lost?.lease === undefined) return;
      this.#terms.set(number, { term: lost.lease.term, since: this.#options.clock.now() });
      this.claim(lost);
    });
  }

  claimAll(): void {
    for (const model of this.#options.catalog().models()) this.claim(model);
  }
}

/** Highest random weight: when a batcher dies, only its models move. */
export function heir(alive: readonly ActorKey[], modelNumber: number): ActorKey | undefined {
  let best: ActorKey | undefined;
  let bestWeight = -1;
  for (const key of alive) {
    const weight = mixed(fnv1a(`${key}/${modelNumber}`));
    if (weight > bestWeight || (weight === bestWeight && best !== undefined && key < best)) {
      best = key;
      bestWeight = weight;
    }
  }
  return best;
}

/** FNV of texts that differ only at their end differs in order only with luck; after this every bit depends on every other (murmur3's last step). */
function mixed(hash: number): number {
  let bits = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
