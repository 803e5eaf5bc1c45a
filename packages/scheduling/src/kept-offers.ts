/**
 * Offers that the ranker needn't hear of yet. While requests come each changes its model's candidate, only the newest counts (docs/algorithms.md, A5), and none does anything
 * before its model timer is due; so time is cut into turns, and an offer that is due in a later one is kept: mostly the next has replaced it by then. What the ranker decides
 * is the same as if it had heard of all. In production the batchers' OfferGate does so, which also tells the first offer at once, for the idle time that
 * a ranker may give away: this one's ranker can't.
 *
 *   KO1. At the beginning of a turn, and at every moment in it, whatever is due in it has been told.
 *   KO2. What the ranker has of a model is not due in this turn while anything of the model is kept: it would act on what has been replaced.
 */
import { type Instant, assert } from "@tutti/units";
import type { Candidate } from "./messages.ts";

export class KeptOffers {
  readonly #turn: number;
  readonly #tell: (model: number) => void;
  #turnEnd = -Infinity;
  /** Models of which an offer is kept, and some of which none is any more. */
  readonly #models: number[] = [];
  /** By model: is it in that list? */
  readonly #isListed: Uint8Array;
  /** By model: when what is kept is due; Infinity: nothing is. */
  readonly #keptDueAt: Float64Array;
  /** By model: when what the ranker has is due; Infinity: it has nothing. */
  readonly #toldDueAt: Float64Array;

  /**
   * @param turn - µs; Infinity: every offer is told at once
   * @param tell - tells the ranker what the model offers now
   */
  constructor(models: number, turn: number, tell: (model: number) => void) {
    assert(turn > 0, `turns of ${turn} µs: an offer that is due now would be kept`);
    this.#turn = turn;
    this.#tell = tell;
    this.#isListed = new Uint8Array(models);
    this.#keptDueAt = new Float64Array(models).fill(Infinity);
    this.#toldDueAt = new Float64Array(models).fill(Infinity);
  }

  /** Whether an offer is kept; if not, it is to be told now. */
  keep(model: number, { batchSize, execAt, delay }: Readonly<Candidate>): boolean {
    const dueAt = batchSize === 0 ? Infinity : execAt - delay;
    if (batchSize === 0 || dueAt < this.#turnEnd || this.#toldDueAt[model]! < this.#turnEnd) {
      this.#keptDueAt[model] = Infinity;
      this.#toldDueAt[model] = dueAt;
      return false;
    }
    this.#keptDueAt[model] = dueAt;
    if (this.#isListed[model] === 0) {
      this.#isListed[model] = 1;
      this.#models.push(model);
    }
    return true;
  }

  /** How many models are looked at when a turn begins. */
  get listed(): number {
    return this.#models.length;
  }
  /** Whether everything before that moment has been told. */
  isToldUntil(at: Instant): boolean {
    return at < this.#turnEnd;
  }

  /** A grant was answered, which voids whatever the model has offered: what the ranker had is not due any more, so the next offer may be kept. */
  voided(model: number): void {
    this.#keptDueAt[model] = this.#toldDueAt[model] = Infinity;
  }

  /** Begins another turn if this one is over: before anything that is due at that moment, or was since the last, happens. */
  reach(at: Instant): void {
    if (at < this.#turnEnd) return;
    this.#turnEnd = at + this.#turn;
    this.#tellUntil(this.#turnEnd);
  }
  tellAll(): void {
    this.#tellUntil(Infinity);
  }

  #tellUntil(end: number): void {
    const models = this.#models;
    let left = 0;
    for (let i = 0; i < models.length; i++) {
      const model = models[i]!;
      const dueAt = this.#keptDueAt[model]!;
      const isDue = dueAt < end || this.#toldDueAt[model]! < end; // KO1, KO2
      if (dueAt !== Infinity && !isDue) models[left++] = model;
      else {
        this.#isListed[model] = 0;
        if (dueAt === Infinity) continue;
        this.#keptDueAt[model] = Infinity;
        this.#toldDueAt[model] = dueAt;
        this.#tell(model);
      }
    }
    models.length = left;
  }
}
