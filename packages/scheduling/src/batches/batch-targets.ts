/**
 * The target batch b* for the SLO of the request at the head: docs/algorithms.md, A7. It is computed anew at most every
 * 50 ms, from the model's total rate. Each SLO has its own target.
 */
import { type LatencyTable, targetBatch } from "@tutti/profile";
import type { Instant, Micros } from "@tutti/units";

const REFRESH_EVERY = 50_000;
/**
 * Most distinct SLOs with an exact target. Publishers choose SLOs freely, so beyond these an SLO shares the target of
 * its class.
 */
const EXACT_MAX = 64;
const CLASS_RATIO = 1.25;

/** The class of an SLO: rounded down to a grid of ratio 1.25. Goodput is judged per (model, class). */
export function sloClass(slo: Micros): number {
  return slo < 1 ? 0 : Math.floor(Math.log(slo) / Math.log(CLASS_RATIO) + 1e-9);
}

export interface TargetInputs {
  readonly profile: LatencyTable;
  readonly ctrl: Micros;
  readonly perItem: Micros;
  readonly respond: Micros;
}

export class BatchTargets {
  /** Target for any SLO and rate; 0: b*. */
  readonly fixed: number;
  #inputs: TargetInputs;
  #rate = 0;
  /** Fraction of b* to aim at. */
  #share = 1;
  /** Time that batches keep in hand. */
  #reserve = 0;
  #refreshDue = -Infinity;
  /** The last answer, cached: most models have one SLO. */
  #slo = -1;
  #target = 1;
  readonly #exact = new Map<number, number>();
  readonly #byClass = new Map<number, number>();

  constructor(fixed: number, inputs: TargetInputs) {
    this.fixed = fixed;
    this.#inputs = inputs;
  }

  /** The same for another profile, at the same rate. */
  copyFor(inputs: TargetInputs): BatchTargets {
    const copy = new BatchTargets(this.fixed, inputs);
    copy.#rate = this.#rate;
    copy.#share = this.#share;
    copy.#reserve = this.#reserve;
    return copy;
  }

  /** True if the rate should be refreshed; never for a fixed target. */
  isDue(now: Instant): boolean {
    return this.fixed === 0 && now >= this.#refreshDue;
  }
  /** @param share - fraction of b* to aim at: the ideal batch is too greedy where arrivals vary */
  refresh(now: Instant, rate: number, share: number, reserve: number): void {
    this.#rate = rate;
    this.#share = share;
    this.#reserve = reserve;
    this.#refreshDue = now + REFRESH_EVERY;
    this.#forget();
  }
  change(inputs: TargetInputs): void {
    this.#inputs = inputs;
    this.#forget();
  }

  /** The target batch for an SLO, at least 1. */
  forSlo(slo: Micros): number {
    if (this.fixed !== 0) return this.fixed;
    if (slo !== this.#slo) {
      this.#target = this.#lookUp(slo);
      this.#slo = slo;
    }
    return this.#target;
  }

  #lookUp(slo: Micros): number {
    const known = this.#exact.get(slo);
    if (known !== undefined) return known;
    if (this.#exact.size < EXACT_MAX) {
      const target = this.#compute(slo);
      this.#exact.set(slo, target);
      return target;
    }
    const sloOfClass = Math.floor(CLASS_RATIO ** sloClass(slo)) as Micros;
    let target = this.#byClass.get(sloOfClass);
    if (target === undefined) this.#byClass.set(sloOfClass, (target = this.#compute(sloOfClass)));
    return target;
  }
  #compute(slo: Micros): number {
    return this.withReserve(slo, this.#reserve, this.#rate);
  }

  /** The target batch at a rate, with so much time kept in hand, µs; without a fixed target. */
  withReserve(slo: Micros, reserve: number, rate: number): number {
    const { profile, ctrl, perItem, respond } = this.#inputs;
    const left = Math.max(0, slo - reserve) as Micros;
    const ideal = targetBatch({ profile, slo: left, rate, ctrl, perItem, respond });
    return this.#share === 1 ? ideal : Math.max(1, Math.round(this.#share * ideal));
  }
  #forget(): void {
    if (this.#exact.size > 0) this.#exact.clear();
    if (this.#byClass.size > 0) this.#byClass.clear();
    this.#slo = -1;
  }
}
