/** Jobs whose failures a runner remembers; beyond, those that failed first count anew. */
export const FAILURES_KNOWN_MAX = 65_536;

/**
 * Counts failures by the job's number in the queue. Deliveries would count too much: most of them end because
 * accelerators are busy. Each runner counts its own, since a runner that dies takes no more than a few tries with it.
 */
export class FailureCounts {
  readonly #counts = new Map<number, number>();

  get size(): number {
    return this.#counts.size;
  }

  of(seq: number): number {
    return this.#counts.get(seq) ?? 0;
  }

  /** @returns the failures so far, this one included */
  note(seq: number): number {
    const count = this.of(seq) + 1;
    this.#counts.delete(seq);
    this.#counts.set(seq, count);
    const [oldest] = this.#counts.keys();
    if (this.#counts.size > FAILURES_KNOWN_MAX && oldest !== undefined) this.#counts.delete(oldest);
    return count;
  }

  forget(seq: number): void {
    this.#counts.delete(seq);
  }
}
