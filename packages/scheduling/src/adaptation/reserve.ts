/**
 * The time that a model's batches keep in hand, so that a request whose batch ends later than planned is still in time.
 * docs/algorithms.md, A9.
 *
 * Plans take the typical run and the typical way. What is beyond it (slow runs, late messages, a process or a machine
 * that stands still) is measured once, where it counts: each request that ran tells how much its batch would have had
 * to keep in hand for it. The reserve is the quantile of these needs that leaves LATE of the requests late.
 *
 *   RES-1. 0 ≤ reserve ≤ SLO/4. It is taken off the deadline when a batch's size and start are chosen, but from no
 *          request that can then not run even alone: a request that can be in time without it is not refused for it.
 *   RES-2. Requests fade with the number that came after them, and with time.
 *   RES-3. It is kept by model and not by executor, since a start is planned before the ranker chooses the executor.
 *   RES-4. A need is that beyond the profile in force: where runs turn out to be longer, and plans take them so, no
 *          time is kept in hand for it besides.
 *   RES-5. A request that needed more than the bound tells nothing about what to keep: no reserve would have helped it.
 */
import type { Instant, Micros } from "@tutti/units";

/** Share of requests that may end late: half of what goodput allows, which leaves the other half to refusals. */
const LATE = 0.005;
/** Requests, and time in µs, over which older ones fade: forty of so many may be late. */
const MEMORY = 8_192;
const MEMORY_TIME = 10_000_000;
const MOST = 1 / 4;
/** Steps of the reserve up to its bound. */
const STEPS = 64;

/** The part of an ended batch that `note` needs. */
interface Ended {
  /** In the order of their deadlines. */
  readonly requests: readonly { readonly deadline: Instant }[];
  /** Reserve with which it was planned, µs. */
  readonly reserve: number;
}

export class Reserve {
  /** Time that batches keep in hand now, µs. */
  us = 0;
  /** Requests that were granted in time and answered late. */
  late = 0;
  /** Weight of requests by what they needed, in steps; the last: more than the bound. */
  readonly #needs = new Float64Array(STEPS + 1);
  #weight = 0;
  #notedAt = -Infinity;

  /** Notes a batch that ended at `end`. */
  note({ requests, reserve }: Ended, end: Instant, slo: Micros): void {
    const step = (MOST * slo) / STEPS;
    const fade = Math.exp(-Math.max(requests.length / MEMORY, (end - this.#notedAt) / MEMORY_TIME));
    this.#notedAt = end;
    for (let i = 0; i <= STEPS; i++) this.#needs[i]! *= fade;
    this.#weight = this.#weight * fade + requests.length;
    for (const { deadline } of requests) {
      const lateBy = end - deadline;
      if (lateBy > 0) this.late++;
      const need = Math.ceil((lateBy + reserve) / step);
      this.#needs[need <= 0 ? 0 : need < STEPS ? need : STEPS]!++;
    }
    this.us = Math.round(step * this.#quantile());
  }

  /** Plans take so much longer runs from now on: what was needed before is less by that (RES-4). */
  plansLonger(by: number, slo: Micros): void {
    const steps = Math.min(STEPS, Math.round(by / ((MOST * slo) / STEPS)));
    if (steps <= 0) return;
    for (let i = 1; i <= steps; i++) this.#needs[0]! += this.#needs[i]!;
    this.#needs.copyWithin(1, steps + 1);
    this.#needs.fill(0, STEPS + 1 - steps);
    this.us = Math.round(((MOST * slo) / STEPS) * this.#quantile());
  }

  /** The fewest steps that are too few for at most LATE of the requests that they could have helped (RES-5). */
  #quantile(): number {
    let above = 0;
    let steps = STEPS - 1;
    const allowed = Math.max(1, LATE * (this.#weight - this.#needs[STEPS]!));
    while (steps > 0 && above + this.#needs[steps]! <= allowed) above += this.#needs[steps--]!;
    return steps;
  }
}
