import { MODELS_MAX } from "@tutti/protocol";

const COLD_RUNS = 100;
const COLD_RUNS_OF_MODEL = 10;

/**
 * Tells the first runs of a process, and of each model in it, from later ones. Their code is cold and their memory new,
 * so they don't say what a run takes: the profiler doesn't hear of them.
 */
export class WarmRuns {
  #ran = 0;
  /** By model number. */
  readonly #ranOf = new Map<number, number>();

  /** Counts a run. @returns whether it is none of the first ones */
  count(model: number): boolean {
    if (this.#ranOf.size >= MODELS_MAX && !this.#ranOf.has(model)) this.#ranOf.clear(); // most have left long ago
    const ranOf = (this.#ranOf.get(model) ?? 0) + 1;
    this.#ranOf.set(model, ranOf);
    return ++this.#ran > COLD_RUNS && ranOf > COLD_RUNS_OF_MODEL;
  }
}
