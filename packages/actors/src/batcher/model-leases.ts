import { BUCKET, leaseKeys } from "@tutti/protocol";
import type { Store } from "@tutti/store";
import type { ActorKey } from "@tutti/units";
import { fnv1a, toJson } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../catalog.ts";

export interface ModelLeasesOptions {
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
 */
export class ModelLeases {
  readonly #options: ModelLeasesOptions;
  readonly #trying = new Set<number>();

  constructor(options: ModelLeasesOptions) {
    this.#options = options;
  }

  /** Takes what is ours to take; call it when a model becomes ready, a lease is lost, or a batcher joins or dies. */
  claim(model: CatalogModel): void {
    const { self } = this.#options;
    const { number } = model.spec;
    if (model.status?.state !== "ready" || this.#trying.has(number)) return;
    const alive = this.#options.alive();
    if (model.lease !== undefined && (!this.#options.knowsPeers() || alive.includes(model.lease.batcher))) return;
    if (heir(alive, number) !== self) return;
    this.#take(model);
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
    store.update(BUCKET.leases, leaseKeys.model(number), value, model.lease?.term ?? 0, () => {
      // Won or lost, the watch tells everybody, ourselves included, who holds it; a store that did not answer is asked again by the next claimAll.
      this.#trying.delete(number);
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
