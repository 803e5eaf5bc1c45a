/**
 * The time by which a model's batches start early because it loses requests. docs/algorithms.md, A6.
 *
 * A batch that waits as long as its head can afford has no slack left when it asks for an accelerator. Where long runs
 * of other models occupy accelerators, a model of a short SLO then finds none in time, though some are idle while its
 * batch waits. Each lost request raises the lead, and each that runs lowers it, so that it settles where half a percent
 * is lost.
 *
 *   LEAD-1. 0 ≤ lead ≤ SLO.
 *   LEAD-2. It counts only as far as accelerators are idle (`Scarcity.waiting`): where none is, an earlier start only
 *           makes batches smaller, and more is lost.
 */
import type { Micros } from "@tutti/units";

/** Share of lost requests at which the lead stays: half of what goodput allows. */
const LOST = 0.005;
/** Rise for each lost request, as a fraction of the SLO. */
const STEP = 1 / 32;

export class Lead {
  #us = 0;
  #lost = 0;

  /**
   * Counts a batch that is sent.
   *
   * @param requests - its requests
   * @param lost - total of the model's lost requests
   */
  note(requests: number, lost: number, slo: Micros): void {
    const change = STEP * slo * (lost - this.#lost - LOST * requests);
    this.#lost = lost;
    this.#us = Math.min(slo, Math.max(0, this.#us + change));
  }

  /** @param waiting - share of the model's requests whose batches found no accelerator free: 0 … 1 */
  at(waiting: number): number {
    return this.#us * (1 - waiting) ** 2;
  }
}
