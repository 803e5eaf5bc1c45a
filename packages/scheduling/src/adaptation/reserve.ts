/**
 * The time that a model's batches keep in hand, so that a request whose batch ends later than planned is still in time.
 * docs/algorithms.md, A9.
 *
 * Plans take the typical run and the typical way. What is beyond it (slow runs, late messages, a process or a machine
 * that stands still) is measured once, where it counts: each request that ran tells how much its batch would have had
 * to keep in hand for it. The reserve is the quantile of these needs that leaves LATE of the requests late, or less
 * where more requests are then served in time: what is kept in hand makes batches smaller, and the capacity with them.
 *
 *   RES-1. 0 ≤ reserve ≤ SLO/4. It is taken off the deadline when a batch's size and start are chosen, but not where
 *          the head runs alone: no request is refused for it that nobody waits behind.
 *   RES-2. A need beyond the bound doesn't count, since no reserve mends it. After a long stall hundreds of requests
 *          have such a need, and batches that keep all they can in hand would be small for seconds.
 *   RES-3. Requests fade with the number that came after them, and with time.
 *   RES-4. A need is that beyond the profile in force: where runs turn out to be longer, and plans take them so, no
 *          time is kept in hand for it besides. Where they turn out to be shorter, what they needed is as much smaller:
 *          else a slow minute would make batches small long after it.
 *   RES-5. It is kept by model and not by executor, since a start is planned before the ranker chooses the executor.
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

/** Part by which plans change before needs are adapted to it: in single steps it would be rounded away. */
const DRIFT = 0.05;

/** How often the reserve is chosen anew, µs. */
const CHOOSE_EVERY = 20_000;

/** An ended batch, as far as `note` needs it. */
interface Ended {
  /** In the order of their deadlines. */
  readonly requests: readonly { readonly deadline: Instant }[];
  /** Reserve with which it was planned, µs. */
  readonly reserve: number;
}

export class Reserve {
  /** Time that batches keep in hand now, µs. */
  us = 0;
  /** Share of the requests that needed more, those beyond the bound among them: 0 … 1. */
  beyond = 0;
  /** Requests that were granted in time and answered late. */
  late = 0;
  /** Weight of requests by what they needed, in steps. */
  readonly #needs = new Float64Array(STEPS + 1);
  /** How much longer plans are than when the needs were last adapted to them. */
  #drift = 1;
  #weight = 0;
  /** The part of it that needed more than the bound. */
  #unmended = 0;
  #notedAt = -Infinity;
  #chooseDue = -Infinity;

  /**
   * Notes a batch that ended at `end`.
   *
   * @param longer - by how much longer it would be planned to run now, µs (RES-4)
   */
  note({ requests, reserve }: Ended, end: Instant, slo: Micros, longer = 0): void {
    const step = (MOST * slo) / STEPS;
    const fade = Math.exp(-Math.max(requests.length / MEMORY, (end - this.#notedAt) / MEMORY_TIME));
    this.#notedAt = end;
    for (let i = 0; i <= STEPS; i++) this.#needs[i]! *= fade;
    this.#weight = this.#weight * fade + requests.length;
    this.#unmended *= fade;
    for (const { deadline } of requests) {
      const lateBy = end - deadline;
      if (lateBy > 0) this.late++;
      const need = Math.ceil((lateBy - longer + reserve) / step);
      if (need > STEPS) this.#unmended++;
      this.#needs[need <= 0 || need > STEPS ? 0 : need]!++;
    }
  }

  /** Plans take runs of one size for so long from now on, µs, instead of so long (RES-4). */
  plansChanged(was: number, is: number, slo: Micros): void {
    this.#drift *= is / was;
    const times = this.#drift;
    if (times > 1 - DRIFT && times < 1 + DRIFT) return;
    this.#drift = 1;
    this.#chooseDue = -Infinity;
    const needs = this.#needs.slice();
    const longer = Math.round((is - is / times) / ((MOST * slo) / STEPS));
    this.#needs.fill(0);
    needs.forEach((weight, step) => {
      const then = times > 1 ? step - longer : Math.round(step * times);
      this.#needs[Math.max(0, then)]! += weight;
    });
  }

  /**
   * Sets the reserve.
   *
   * @param served - requests per time that are served with so much kept in hand, µs
   */
  choose(at: Instant, slo: Micros, served: (us: number) => number): void {
    if (at < this.#chooseDue) return;
    this.#chooseDue = at + CHOOSE_EVERY;
    const step = (MOST * slo) / STEPS;
    const allowed = Math.max(1, LATE * this.#weight);
    const weight = Math.max(1, this.#weight);
    let above = 0;
    let steps = STEPS;
    while (steps > 0 && above + this.#needs[steps]! <= allowed) above += this.#needs[steps--]!;
    const most = served(0);
    let best = -1;
    for (; steps >= 0; above += this.#needs[steps--]!) {
      const carried = served(steps * step);
      const inTime = carried * (1 - above / weight);
      if (inTime > best) {
        best = inTime;
        this.us = Math.round(step * steps);
        this.beyond = (above + this.#unmended) / weight;
      }
      if (carried >= most) return; // less in hand serves no more
    }
  }
}
