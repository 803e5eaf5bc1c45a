import type { Clock } from "@tutti/ports/clock";
import { ALWAYS, type ActorKey, type Instant, type Micros, NEVER, after, seconds } from "@tutti/units";
import { type Loads, type OwnedModel, legaciesOf, moveThatPays, sharesOf } from "./balance.ts";

/**
 * Interval between two moves that a change of loads calls for. It is longer than the load of a moved model takes to
 * show at its new owner.
 */
export const BALANCE_EVERY: Micros = seconds(3);
/** How long a model stays after a move that balanced loads. */
export const STAYS_FOR: Micros = seconds(30);
/**
 * How long a batcher that joins is offered its part. The next balancing decides on the models that it has not taken by
 * then.
 */
const JOINING_FOR: Micros = seconds(5);

export interface LoadBalancerOptions {
  readonly clock: Clock;
  readonly self: ActorKey;
  /** The models that this batcher owns. */
  readonly owned: () => readonly OwnedModel[];
  /** The loads of the other batchers that take models. */
  readonly others: () => ReadonlyMap<ActorKey, number>;
  readonly leaving: () => boolean;
}

/**
 * Decides which models this batcher hands on, and to which batchers (balance.ts). It acts at once when a batcher joins
 * or this one leaves, otherwise at intervals.
 */
export class LoadBalancer {
  readonly #options: LoadBalancerOptions;
  readonly #joined = new Set<ActorKey>();
  /** Models that came here to balance loads, and the time until which they stay. */
  readonly #stays = new Map<number, Instant>();
  #moves = new Map<number, ActorKey>();
  #movesUntil: Instant = ALWAYS;
  #balanceAt: Instant;
  /** A model received before this time is part of our share as a joining batcher. */
  #joinedUntil: Instant = NEVER;

  constructor(options: LoadBalancerOptions) {
    this.#options = options;
    this.#balanceAt = after(options.clock.now(), BALANCE_EVERY);
  }

  /** Models to hand on, each with its new owner. */
  get moves(): ReadonlyMap<number, ActorKey> {
    return this.#moves;
  }

  /** This batcher takes models from now on. */
  begin(): void {
    this.#joinedUntil = after(this.#options.clock.now(), JOINING_FOR);
  }
  /** Another one takes models from now on. */
  joined(batcher: ActorKey): void {
    this.#joined.add(batcher);
  }
  /** A batcher that goes on serving hands this model to us. */
  received(modelNumber: number): void {
    const now = this.#options.clock.now();
    if (now > this.#joinedUntil) this.#stays.set(modelNumber, after(now, STAYS_FOR));
  }

  /** Runs every 20 ms. */
  tick(): void {
    const { clock, leaving } = this.#options;
    const now = clock.now();
    if (leaving()) return this.#bequeath();
    if (this.#joined.size > 0) {
      this.#moves = new Map(sharesOf(this.#loads(), this.#joined));
      this.#joined.clear();
      this.#movesUntil = after(now, JOINING_FOR);
      // The models handed to joiners show in the joiners' loads only later.
      this.#balanceAt = after(this.#moves.size > 0 ? this.#movesUntil : now, BALANCE_EVERY);
    }
    if (now >= this.#movesUntil) this.#moves.clear();
    else this.#endMoves();
    if (now < this.#balanceAt) return;
    this.#balanceAt = after(now, BALANCE_EVERY);
    for (const [number, until] of this.#stays) if (now > until) this.#stays.delete(number);
    const move = moveThatPays(this.#loads(), (number) => !this.#stays.has(number));
    if (move === undefined) return;
    this.#moves.set(move.number, move.to);
    this.#movesUntil = this.#balanceAt;
  }

  /**
   * Ends each move whose model is no longer here. A model that another batcher hands back meanwhile stays: two that
   * have heard of one another anew, each with a part for the other, would pass it to and fro.
   */
  #endMoves(): void {
    if (this.#moves.size === 0) return;
    const owned = new Set(this.#options.owned().map(({ number }) => number));
    for (const number of this.#moves.keys()) if (!owned.has(number)) this.#moves.delete(number);
  }

  #loads(): Loads {
    const { self, owned, others } = this.#options;
    return { self, models: owned(), others: others() };
  }

  /**
   * Assigns the models of this leaving batcher. A model keeps its successor while that lives, and counts in its load;
   * the others get a new one.
   */
  #bequeath(): void {
    const { models, others } = this.#loads();
    const given = new Map(others);
    const left: OwnedModel[] = [];
    const moves = new Map<number, ActorKey>();
    for (const model of models) {
      const heir = this.#moves.get(model.number);
      const load = heir === undefined ? undefined : given.get(heir);
      if (heir === undefined || load === undefined) left.push(model);
      else {
        moves.set(model.number, heir);
        given.set(heir, load + model.load);
      }
    }
    for (const [number, heir] of legaciesOf({ models: left, others: given })) moves.set(number, heir);
    this.#moves = moves;
  }
}
