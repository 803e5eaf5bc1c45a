import { MODELS_MAX } from "@tutti/protocol";
import type { Instant } from "@tutti/units";

const COLD_RUNS = 100;
const COLD_RUNS_OF_MODEL = 10;
/** After so long, µs, code is as warm as it gets where runs are long or rare. */
const COLD_TIME = 10_000_000;

interface Begun {
  readonly at: Instant;
  runs: number;
}

/**
 * Tells the first runs of a process, and of each model in it, from later ones. Their code is cold and their memory new,
 * so they don't say what a run takes: the profiler doesn't hear of them.
 */
export class WarmRuns {
  #process: Begun | undefined;
  /** By model number, the oldest first. */
  readonly #models = new Map<number, Begun>();

  /** Counts a run. @returns whether it is none of the first ones */
  count(model: number, at: Instant): boolean {
    const process = (this.#process ??= { at, runs: 0 });
    let own = this.#models.get(model);
    if (own === undefined) {
      if (this.#models.size >= MODELS_MAX) this.#models.delete(this.#models.keys().next().value!); // it left long ago
      this.#models.set(model, (own = { at, runs: 0 }));
    }
    process.runs++;
    own.runs++;
    return isWarm(process, at, COLD_RUNS) && isWarm(own, at, COLD_RUNS_OF_MODEL);
  }
}

const isWarm = (begun: Begun, at: Instant, runs: number): boolean => begun.runs > runs || at - begun.at > COLD_TIME;
