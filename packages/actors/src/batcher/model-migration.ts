import type { Clock } from "@tutti/ports/clock";
import { type ActorKey, type Instant, type Micros, after, millis, seconds } from "@tutti/units";
import type { Catalog, CatalogModel } from "../catalog.ts";

/**
 * Handed on at a time where nobody leaves: each new holder is cold for a moment, and one that has just started is cold
 * altogether.
 */
const PASSING_MAX = 2;
/** An heir that has not taken a model by then is not offered any for a while. */
const GIVE_UP_AFTER = millis(500);
const SHUNNED_FOR = seconds(2);

/**
 * What passing may take, from the last batch of the old holder to the first that the new one can send: the store's
 * answer, the watch, and the ingresses sending again what waits. A thread that is about to be passed starts its batches
 * earlier by so much, so that none falls due in between.
 */
export const PASSING_TAKES: Micros = millis(8);

interface Passing {
  readonly term: number;
  readonly heir: ActorKey;
  readonly until: Instant;
}

export interface ModelMigrationOptions {
  readonly clock: Clock;
  readonly self: ActorKey;
  readonly catalog: () => Catalog;
  /** Models that should be handed on, and to whom. */
  readonly moves: () => ReadonlyMap<number, ActorKey>;
  /** Whether it lives and takes models. */
  readonly takes: (batcher: ActorKey) => boolean;
  readonly leaving: () => boolean;
  /** The model's threads plan with `PASSING_TAKES` in reserve from now on, or no longer. */
  readonly onPassing: (modelNumber: number) => void;
  readonly offer: (heir: ActorKey, model: CatalogModel) => void;
}

/**
 * Passes models on without a pause. The holder offers, the heir writes the lease, and until the holder is shown the new
 * term it goes on as before: so the lease is only ever written by who will serve under it, and a lost offer or a dead
 * heir costs nothing but time. The ingresses send the heir what no executor has pulled; what the old holder has sent
 * out runs and is answered as ever.
 */
export class ModelMigration {
  readonly #options: ModelMigrationOptions;
  readonly #passing = new Map<number, Passing>();
  readonly #shunned = new Map<ActorKey, Instant>();

  constructor(options: ModelMigrationOptions) {
    this.#options = options;
  }

  isPassing(modelNumber: number): boolean {
    return this.#passing.has(modelNumber);
  }

  /**
   * Every 20 ms. A model is offered from the tick after that on which its threads were told: by then their early
   * batches have left.
   */
  tick(): void {
    this.#continue();
    const now = this.#options.clock.now();
    for (const [heir, until] of this.#shunned) if (now > until) this.#shunned.delete(heir);
    const max = this.#options.leaving() ? Infinity : PASSING_MAX;
    for (const [number, heir] of this.#options.moves()) {
      if (this.#passing.size >= max) return;
      const term = this.#termOf(number);
      if (term === undefined || this.#passing.has(number)) continue;
      if (this.#shunned.has(heir) || !this.#options.takes(heir)) continue;
      this.#passing.set(number, { term, heir, until: after(now, GIVE_UP_AFTER) });
      this.#options.onPassing(number);
    }
  }

  #continue(): void {
    const now = this.#options.clock.now();
    for (const [number, { term, heir, until }] of this.#passing) {
      if (this.#termOf(number) !== term) {
        this.#passing.delete(number); // Done, or taken by somebody else.
        continue;
      }
      const model = this.#modelOf(number);
      if (model !== undefined && now <= until && this.#options.takes(heir)) this.#options.offer(heir, model);
      else {
        this.#passing.delete(number);
        this.#options.onPassing(number);
        if (now > until) this.#shunned.set(heir, after(now, SHUNNED_FOR));
      }
    }
  }

  /** Of a model that we hold. */
  #termOf(modelNumber: number): number | undefined {
    const lease = this.#options.catalog().leaseOf(modelNumber);
    return lease?.batcher === this.#options.self ? lease.term : undefined;
  }
  #modelOf(modelNumber: number): CatalogModel | undefined {
    return this.#options.catalog().ofThread((modelNumber * 64) as Parameters<Catalog["ofThread"]>[0]);
  }
}
