import type { Clock } from "@tutti/ports/clock";
import { type ActorKey, type Instant, type Micros, after, millis, seconds, threadId } from "@tutti/units";
import type { Catalog, CatalogModel } from "../../runtime/catalog.ts";

/**
 * Models handed on at the same time while the batcher stays. A new owner is cold for a moment, and entirely cold if it
 * has just started.
 */
const PASSING_MAX = 2;
/** How long an offered model waits to be taken. A batcher that does not take it by then gets no offers for a while. */
const GIVE_UP_AFTER = millis(500);
const SHUNNED_FOR = seconds(2);

/**
 * Time reserved for a move, from the last batch of the old owner to the first of the new one. It covers the store's
 * answer, the watch, and the ingresses sending again what waits. A thread that is about to move starts its batches
 * earlier by this, so that none falls due in between.
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
  /** Models to hand on, each with its new owner. */
  readonly moves: () => ReadonlyMap<number, ActorKey>;
  /** Whether the batcher is alive and takes models. */
  readonly takes: (batcher: ActorKey) => boolean;
  readonly leaving: () => boolean;
  /** The model's threads start or stop planning with `PASSING_TAKES` in reserve. */
  readonly onPassing: (modelNumber: number) => void;
  readonly offer: (heir: ActorKey, model: CatalogModel) => void;
}

/**
 * Moves models between batchers without a pause. The owner offers the model and the successor writes the lease. The
 * owner goes on as before until it sees the new term, so only the batcher that will serve under a lease ever writes it,
 * and a lost offer or a dead successor costs only time. The ingresses send the successor the requests that no executor
 * has pulled; batches that the old owner has dispatched run and are answered as usual.
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
   * Runs every 20 ms. A model is offered from the tick after its threads were retuned: by then their early batches have
   * left.
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
        this.#passing.delete(number); // Done, or taken by another batcher.
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

  /** Term of a model that this batcher holds; undefined for any other. */
  #termOf(modelNumber: number): number | undefined {
    const lease = this.#options.catalog().leaseOf(modelNumber);
    return lease?.batcher === this.#options.self ? lease.term : undefined;
  }
  #modelOf(modelNumber: number): CatalogModel | undefined {
    return this.#options.catalog().ofThread(threadId(modelNumber, 0));
  }
}
