/**
 * Decides when each model of a simulation must be looked at. Until one of a model's offers is due, its ranker does
 * nothing with it (docs/algorithms.md, A4), so nothing sees or touches the model meanwhile. Its offers are kept back,
 * and mostly replaced before they could have an effect. Requests with a known arrival may be given to it before their
 * moment. That is the lookahead of conservative discrete-event simulation (Chandy and Misra, CACM 24(4), 1981): the
 * ranker decides the same as if it had heard of every offer at once. In production the batchers' OfferCoalescer keeps
 * offers too, but reports the first at once, for the idle time that a ranker may give away; the ranker here can't.
 *
 *   LOOKAHEAD-1. Due offers have been reported. The ranker's offer is not due while a newer one is kept: the ranker
 *                would act on one that has been replaced.
 *   LOOKAHEAD-2. A model's look is not later than its next known request, nor than the moment when LOOKAHEAD-1 needs a
 *                report. It may be earlier: it is moved forward only when it is reached (`settle`).
 */
import { IndexedHeap } from "@tutti/collections";
import type { Instant } from "@tutti/units";
import type { Candidate } from "../messages.ts";

export class Lookahead {
  readonly #looks: IndexedHeap;
  /** By model: time of its next known request; Infinity: none is known. */
  readonly #comesAt: Float64Array;
  /** By model: whether an offer is kept, and when it is due; Infinity: none is, or the offer was withdrawn. */
  readonly #isKept: Uint8Array;
  readonly #keptDueAt: Float64Array;
  /** By model: time at which the ranker's offer is due; Infinity: it has none. */
  readonly #toldDueAt: Float64Array;

  constructor(models: number) {
    this.#looks = new IndexedHeap(models);
    this.#comesAt = new Float64Array(models).fill(Infinity);
    this.#isKept = new Uint8Array(models);
    this.#keptDueAt = new Float64Array(models).fill(Infinity);
    this.#toldDueAt = new Float64Array(models).fill(Infinity);
  }

  /** The model to look at next; −1: none. */
  get next(): number {
    return this.#looks.topKey;
  }
  /** Time of the next look; `NEVER`: none. */
  get nextAt(): Instant {
    return this.#looks.topPriority as Instant;
  }

  comesAt(model: number): Instant {
    return this.#comesAt[model] as Instant;
  }
  /** Sets the time of the model's next known request; `NEVER`: none is known. */
  comes(model: number, at: Instant): void {
    this.#comesAt[model] = at;
  }

  /** @returns whether the offer must be reported to the ranker now; if not, it is kept */
  offers(model: number, { batchSize, execAt, delay }: Readonly<Candidate>, now: Instant): boolean {
    const dueAt = batchSize === 0 ? Infinity : execAt - delay;
    const isTold = dueAt <= now || this.#toldDueAt[model]! <= now;
    this.#isKept[model] = isTold ? 0 : 1;
    this.#keptDueAt[model] = isTold ? Infinity : dueAt;
    if (isTold) this.#toldDueAt[model] = dueAt;
    return isTold;
  }

  /** A grant was answered, which voids all offers of the model: the ranker's offer is not due any more. */
  voided(model: number): void {
    this.#isKept[model] = 0;
    this.#keptDueAt[model] = this.#toldDueAt[model] = Infinity;
  }

  /** Time before which the ranker does nothing with the model, whatever else happens. */
  silentUntil(model: number): number {
    const told = this.#toldDueAt[model]!;
    const kept = this.#keptDueAt[model]!;
    return told < kept ? told : kept;
  }

  /** LOOKAHEAD-1. @returns whether the kept offer must be reported now; then it counts as reported */
  tells(model: number, now: Instant): boolean {
    return this.silentUntil(model) <= now && this.telling(model);
  }
  /** @returns whether an offer is kept; then it counts as reported */
  telling(model: number): boolean {
    if (this.#isKept[model] === 0) return false;
    this.#isKept[model] = 0;
    this.#toldDueAt[model] = this.#keptDueAt[model]!;
    this.#keptDueAt[model] = Infinity;
    return true;
  }

  /** Moves the look forward to satisfy LOOKAHEAD-2, after any change. */
  rearm(model: number): void {
    const at = this.#lookAt(model);
    if (at < this.#looks.priority(model)) this.#looks.set(model, at);
  }
  /** As `rearm`, but sets the exact time. */
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
