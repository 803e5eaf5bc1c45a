/**
 * How much earlier than planned accelerators become free, so that the ranker can grant them earlier by as much. Half of
 * all runs take less than the median; a grant that waits for the report of an early end leaves the accelerator
 * idle until the next inputs are there. docs/algorithms.md, A4.
 *
 *   EARLY-1. The share of a run that is saved is a running median over batches: a few plans that are far too long don't
 *            move it, and batches that end as planned or late pull it to 0.
 *   EARLY-2. It rises only with a report that a granted batch has ended earlier. Ends of measurements don't count, nor
 *            batches that were refused. Where runs take as planned it stays 0, and so do leads.
 *   EARLY-3. A lead is at most the planned run of the newest batch: no accelerator is granted two runs ahead. Nor is it
 *            more than four delays. It saves at most one, and what arrives meanwhile can't join.
 */

/** The share counts in steps of 1/128: it rises by two where more was saved, and falls by one with each batch. */
const STEPS = 128;
/** Bound of a lead, in delays. */
const DELAYS = 4;

export class EarlyEnds {
  #share = 0;
  /** By accelerator: the time from which the newest grant plans, and the planned run of the newest batch. */
  readonly #from: number[] = [];
  readonly #runs: number[] = [];

  /** The time by which some accelerator is granted earlier may be more than 0. */
  get isKnown(): boolean {
    return this.#share > 0;
  }
  /**
   * Time by which to grant this accelerator earlier, µs.
   *
   * @param delay - from a grant until the inputs are there
   */
  leadOf(gpu: number, delay: number): number {
    return Math.min(DELAYS * delay, Math.floor((this.#share * (this.#runs[gpu] ?? 0)) / STEPS));
  }

  /** @param from - when the accelerator is free for it */
  granted(gpu: number, from: number): void {
    this.#from[gpu] = from;
  }
  /** The grant is used, and the accelerator is free again then. */
  used(gpu: number, freeAt: number): void {
    this.#runs[gpu] = freeAt - this.#from[gpu]!;
    if (this.#share > 0) this.#share--;
  }
  /** A batch has ended, and the accelerator is free by so much earlier than was believed. */
  saved(gpu: number, time: number): void {
    if (time > 0 && time * STEPS > this.#share * (this.#runs[gpu] ?? 0)) this.#share = Math.min(STEPS, this.#share + 2);
  }
  forget(gpu: number): void {
    if (gpu < this.#runs.length) this.#runs[gpu] = 0;
  }
}
