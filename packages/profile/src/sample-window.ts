/**
 * SampleWindow: the recent samples, those of the current generation and of the one before (docs/algorithms.md, B9).
 * Clearing all at once would leave nothing to plan with; with two generations old samples are dropped after two windows
 * at most.
 *
 *   SW1. At most `samplesMax` in all, the newest.
 *   SW2. A generation ends after `window` once it has `leastFew` samples, after ten windows if it has any, and never
 *        without: samples that nothing newer replaces are kept, however old.
 */
import type { Instant, Micros } from "@tutti/units";

export interface SampleWindowOptions {
  readonly window: Micros;
  readonly samplesMax?: number;
  /** Fewest samples that a generation should have. */
  readonly leastFew?: number;
}

/** Size of B9's ring. */
const SAMPLES_KEPT = 2_000;
const PATIENCE_WINDOWS = 10;

export class SampleWindow<Sample> {
  readonly #window: Micros;
  readonly #samplesMax: number;
  readonly #leastFew: number;
  #previous: readonly Sample[] = [];
  #current: Sample[] = [];
  /** Place of the oldest sample in `#current` once it is full: from then on it is a ring. */
  #oldest = 0;
  #began = -Infinity;

  constructor({ window, samplesMax, leastFew }: SampleWindowOptions) {
    this.#window = window;
    this.#samplesMax = samplesMax ?? SAMPLES_KEPT;
    this.#leastFew = leastFew ?? 1;
  }

  get size(): number {
    return Math.min(this.#samplesMax, this.#previous.length + this.#current.length);
  }

  note(at: Instant, sample: Sample): void {
    this.#advance(at);
    if (this.#began === -Infinity) this.#began = at;
    if (this.#current.length < this.#samplesMax) this.#current.push(sample);
    else {
      this.#current[this.#oldest] = sample;
      this.#oldest = (this.#oldest + 1) % this.#samplesMax;
    }
  }

  /** Restores samples of an earlier process, as if they had been noted in the generation before. */
  restore(at: Instant, samples: readonly Sample[]): void {
    this.#previous = samples.slice(-this.#samplesMax);
    this.#began = at;
  }

  /** The samples, in no order. */
  values(at: Instant): readonly Sample[] {
    this.#advance(at);
    const room = this.#samplesMax - this.#current.length;
    if (room <= 0) return this.#current;
    return [...this.#previous.slice(-room), ...this.#current];
  }

  #advance(at: Instant): void {
    const age = at - this.#began;
    if (age < this.#window || this.#current.length === 0) return;
    if (this.#current.length < this.#leastFew && age < PATIENCE_WINDOWS * this.#window) return;
    this.#previous = this.#current;
    this.#current = [];
    this.#oldest = 0;
    this.#began = at;
  }
}
