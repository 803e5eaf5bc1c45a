import type { Clock } from "@tutti/ports/clock";
import { ALWAYS, type ActorKey, type Instant, type Micros, NEVER, after, seconds } from "@tutti/units";
import { type Loads, type OwnedModel, legaciesOf, moveThatPays, sharesOf } from "./balance.ts";

/**
 * Between two moves that a change of loads calls for: longer than the load of a moved model takes to show at its new
 * holder.
 */
export const BALANCE_EVERY: Micros = seconds(3);
/** A model that was handed on to balance loads is not handed on for that reason again before. */
export const STAYS_FOR: Micros = seconds(30);
/**
 * A batcher that joins is offered its part for so long; what it has not taken by then is left to the next balancing.
 */
const JOINING_FOR: Micros = seconds(5);

export interface LoadBalancerOptions {
  readonly clock: Clock;
  readonly self: ActorKey;
  /** The models that this batcher holds. */
  readonly owned: () => readonly OwnedModel[];
  /** The loads of the other batchers that take models. */
  readonly others: () => ReadonlyMap<ActorKey, number>;
  readonly leaving: () => boolean;
}

/**
 * Decides which models this batcher hands on, and to whom (balance.ts): at once where a batcher joins or this one
 * leaves, otherwise one now and then.
 */
export class LoadBalancer {
  readonly #options: LoadBalancerOptions;
  readonly #joined = new Set<ActorKey>();
  /** Models that came here to balance loads, and until when they stay. */
  readonly #stays = new Map<number, Instant>();
  #moves = new Map<number, ActorKey>();
  #movesUntil: Instant = ALWAYS;
  #balanceAt: Instant;
  /** What is received before is our part as one that joins. */
  #joinedUntil: Instant = NEVER;

  constructor(options: LoadBalancerOptions) {
    this.#options = options;
    this.#balanceAt = after(options.clock.now(), BALANCE_EVERY);
  }

  /** What should be handed on, and to whom. */
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
  /** A batcher that goes on serving hands us this model. */
  received(modelNumber: number): void {
    const now = this.#options.clock.now();
    if (now > this.#joinedUntil) this.#stays.set(modelNumber, after(now, STAYS_FOR));
  }

  /** Every 20 ms. */
  tick(): void {
    const { clock, leaving } = this.#options;
    const now = clock.now();
    if (leaving()) return this.#bequeath();
    if (this.#joined.size > 0) {
      this.#moves = new Map(sharesOf(this.#loads(), this.#joined));
      this.#joined.clear();
      this.#movesUntil = after(now, JOINING_FOR);
      // What they were given shows in their loads only later.
      this.#balanceAt = after(this.#moves.size > 0 ? this.#movesUntil : now, BALANCE_EVERY);
    }
    if (now >= this.#movesUntil) this.#moves.clear();
    if (now < this.#balanceAt) return;
    this.#balanceAt = after(now, BALANCE_EVERY);
    for (const [number, until] of this.#stays) if (now > until) this.#stays.delete(number);
    const move = moveThatPays(this.#loads(), (number) => !this.#stays.has(number));
    if (move === undefined) return;
    this.#moves.set(move.number, move.to);
    this.#movesUntil = this.#balanceAt;
  }

  #loads(): Loads {
    const { self, owned, others } = this.#options;
    return { self, models: owned(), others: others() };
  }

  /** Models whose heir is gone, or that had none yet, are given anew; what was given loads its heir already. */
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
