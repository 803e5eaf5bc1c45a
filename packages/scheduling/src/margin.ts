/**
 * How much earlier than planned a model's batches start so that noise doesn't make them late: standstills, slow runs,
 * late messages, whatever the cause. docs/algorithms.md, A9.
 *
 * Runs and hops are planned with a high percentile of what they take (docs/architecture.md, section 5), which is the
 * floor of what is set aside; the margin comes on top. It is steered by the answers that end after their deadlines
 * though their batches were granted in time: up with each of them, down with each that is in time, so that it rests
 * where half a percent is late.
 *
 *   MA1. 0 ≤ margin ≤ SLO/4, and it moves the start only: what can still be in time without it is neither refused nor
 *        held back.
 *   MA2. By model, not by executor too: the start is planned before the ranker says which executor it will be.
 */
import type { Micros } from "@tutti/units";

/**
 * Of all answers: as many as may be late while the margin stays. Half of what goodput allows, which leaves the other
 * half to refusals.
 */
const LATE = 0.005;
/** Of the SLO, for each late answer. */
const STEP = 1 / 256;
const MOST = 1 / 4;
/** µs: in such steps it changes plans. */
const GRAIN = 100;

export class Margin {
  #us = 0;
  /** Requests that were granted in time and answered late. */
  late = 0;
  /** By which batches start earlier now. */
  us = 0;

  /** A batch has ended: of so many requests so many late. */
  note(requests: number, late: number, slo: Micros): void {
    this.late += late;
    const change = STEP * slo * (late - ((requests - late) * LATE) / (1 - LATE));
    this.#us = Math.min(MOST * slo, Math.max(0, this.#us + change));
    this.us = GRAIN * Math.round(this.#us / GRAIN);
  }
}
