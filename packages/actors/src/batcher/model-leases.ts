import { BUCKET, leaseKeys } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/store";
import type { ActorKey } from "@tutti/units";
import { fnv1a, toJson } from "@tutti/wire";
import type { Catalog, CatalogModel } from "../catalog.ts";

export interface ModelLeasesOptions {
  readonly store: Store;
  readonly catalog: () => Catalog;
  readonly self: ActorKey;
  /** The batchers that are alive, ourselves included. */
  readonly alive: () => readonly ActorKey[];
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
    const { store, self } = this.#options;
    const { number } = model.spec;
    if (model.status?.state !== "ready" || this.#trying.has(number)) return;
    const alive = this.#options.alive();
    if (model.lease !== undefined && alive.includes(model.lease.batcher)) return;
    if (heir(alive, number) !== self) return;
    this.#trying.add(number);
    const value = toJson({ batcher: self });
    store.update(BUCKET.leases, leaseKeys.model(number), value, model.lease?.term ?? 0, (result) => {
      this.#trying.delete(number);
      // Won or lost, the watch tells everybody, ourselves included, who holds it. A store that does not answer is asked again.
      if (isStoreFailure(result)) this.#later(model);
    });
  }

  claimAll(): void {
    for (const model of this.#options.catalog().models()) this.claim(model);
  }

  #later(model: CatalogModel): void {
    const current = this.#options.catalog().get(model.spec.name);
    if (current !== undefined) this.claim(current);
  }
}

/** Highest random weight: when a batcher dies, only its models move. */
export function heir(alive: readonly ActorKey[], modelNumber: number): ActorKey | undefined {
  let best: ActorKey | undefined;
  let bestWeight = -1;
  for (const key of alive) {
    const weight = fnv1a(`${key}/${modelNumber}`);
    if (weight > bestWeight || (weight === bestWeight && best !== undefined && key < best)) {
      best = key;
      bestWeight = weight;
    }
  }
  return best;
}
