/**
 * The margin by which a model's batches start earlier than planned, so that noise doesn't make them late. Noise is
 * stalls, slow runs and late messages, whatever the cause. docs/algorithms.md, A9.
 *
 * Runs and hops are planned with a high percentile of their times (docs/architecture.md, section 5), and the margin
 * comes on top. It is steered by the answers that end after their deadlines although their batches were granted in
 * time. Each of them raises it, and each answer in time lowers it, so that it settles where half a percent is late.
 *
 *   MA1. 0 ≤ margin ≤ SLO/4, and it moves only the start: a request that can still be in time without it is neither
 *        refused nor held back.
 *   MA2. It is kept by model, and not by executor: the start is planned before the ranker chooses the executor.
 */
import type { Micros } from "@tutti/units";

/**
 * Fraction of all answers that may be late while the margin stays. It is half of what goodput allows, which leaves the
 * other half to refusals.
 */
const LATE = 0.005;
/** Rise for each late answer, as a fraction of the SLO. */
const STEP = 1 / 256;
const MOST = 1 / 4;
/** Step in which the margin changes plans, µs. */
const GRAIN = 100;

export class Margin {
  #us = 0;
  /** Requests that were granted in time and answered late. */
  late = 0;
  /** Margin by which batches start earlier now, µs. */
  us = 0;

  /** Counts an ended batch: its requests, and how many of them were late. */
  note(requests: number, late: number, slo: Micros): void {
    this.late += late;
    const change = STEP * slo * (late - ((requests - late) * LATE) / (1 - LATE));
    this.#us = Math.min(MOST * slo, Math.max(0, this.#us + change));
    this.us = GRAIN * Math.round(this.#us / GRAIN);
  }
}
