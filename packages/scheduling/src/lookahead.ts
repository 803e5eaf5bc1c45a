/**
 * When each model of a simulation must be looked at. Until something that it offers is due its ranker does nothing with
 * it (docs/algorithms.md, A4), so nobody sees or touches the model meanwhile: its offers are kept, mostly replaced
 * before anybody would have acted on them, and requests of which it is known when they come may be handed to it before
 * their moment. That is the lookahead of conservative discrete-event simulation (Chandy and Misra, CACM 24(4), 1981):
 * what the ranker decides is the same as if it had heard of every offer at once. In production the batchers'
 * OfferCoalescer keeps offers too, but tells the first at once, for the idle time that a ranker may give away: this
 * one's ranker can't.
 *
 *   LA1. What is due has been told. What the ranker has is not due while anything newer is kept: it would act on what
 *        has been replaced.
 *   LA2. A model's look is not later than its next request that is known, nor than the moment when LA1 wants something
 *        told. It may be earlier: it is moved forward only when it is reached (`settle`).
 */
import { IndexedHeap } from "@tutti/collections";
import type { Instant } from "@tutti/units";
import type { Candidate } from "./messages.ts";

export class Lookahead {
  readonly #looks: IndexedHeap;
  /** By model: when its next known request comes; Infinity: none is known. */
  readonly #comesAt: Float64Array;
  /** By model: is something kept, and when is that due? Infinity: nothing is, or its offer was taken back. */
  readonly #isKept: Uint8Array;
  readonly #keptDueAt: Float64Array;
  /** By model: when what the ranker has is due; Infinity: it has nothing. */
  readonly #toldDueAt: Float64Array;

  constructor(models: number) {
    this.#looks = new IndexedHeap(models);
    this.#comesAt = new Float64Array(models).fill(Infinity);
    this.#isKept = new Uint8Array(models);
    this.#keptDueAt = new Float64Array(models).fill(Infinity);
    this.#toldDueAt = new Float64Array(models).fill(Infinity);
  }

  /** The model to be looked at next; −1: none. */
  get next(): number {
    return this.#looks.topKey;
  }
  /** When; `NEVER`: none. */
  get nextAt(): Instant {
    return this.#looks.topPriority as Instant;
  }

  comesAt(model: number): Instant {
    return this.#comesAt[model] as Instant;
  }
  /** Its next request that is known comes then; `NEVER`: none is known. */
  comes(model: number, at: Instant): void {
    this.#comesAt[model] = at;
  }

  /** @returns whether the ranker must hear of the offer now; if not, it is kept */
  offers(model: number, { batchSize, execAt, delay }: Readonly<Candidate>, now: Instant): boolean {
    const dueAt = batchSize === 0 ? Infinity : execAt - delay;
    const isTold = dueAt <= now || this.#toldDueAt[model]! <= now;
    this.#isKept[model] = isTold ? 0 : 1;
    this.#keptDueAt[model] = isTold ? Infinity : dueAt;
    if (isTold) this.#toldDueAt[model] = dueAt;
    return isTold;
  }

  /** A grant was answered, which voids whatever the model has offered: what the ranker had is not due any more. */
  voided(model: number): void {
    this.#isKept[model] = 0;
    this.#keptDueAt[model] = this.#toldDueAt[model] = Infinity;
  }

  /** Until then, that moment excluded, the ranker does nothing with the model, whatever else happens. */
  silentUntil(model: number): number {
    const told = this.#toldDueAt[model]!;
    const kept = this.#keptDueAt[model]!;
    return told < kept ? told : kept;
  }

  /** LA1. @returns whether what is kept must be told now; then it counts as told */
  tells(model: number, now: Instant): boolean {
    return this.silentUntil(model) <= now && this.telling(model);
  }
  /** @returns whether anything is kept; then it counts as told */
  telling(model: number): boolean {
    if (this.#isKept[model] === 0) return false;
    this.#isKept[model] = 0;
    this.#toldDueAt[model] = this.#keptDueAt[model]!;
    this.#keptDueAt[model] = Infinity;
    return true;
  }

  /** LA2, after any change. */
  rearm(model: number): void {
    const at = this.#lookAt(model);
    if (at < this.#looks.priority(model)) this.#looks.set(model, at);
  }
  /** As `rearm`, exactly. */
  settle(model: number): void {
    const at = this.#lookAt(model);
    if (at === Infinity) this.#looks.remove(model);
    else this.#looks.set(model, at);
  }

  #lookAt(model: number): number {
    const comesAt = this.#comesAt[model]!;
    if (this.#isKept[model] === 0) return comesAt;
    const dueAt = this.silentUntil(model);
    return dueAt < comesAt ? dueAt : comesAt;
  }
}
