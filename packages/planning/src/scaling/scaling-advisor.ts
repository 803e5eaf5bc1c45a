/**
 * Advice on scaling that doesn't swing (docs/algorithms.md, A8): more at once, fewer only after windows in a row that
 * all offered some.
 *
 *   SA1. It never asks for more and offers some in one breath, and never offers the last.
 *   SA2. What it releases is the least that any window of the row had to spare.
 *   SA3. It never goes below what somebody who can say has called the fewest.
 */
import { type ScalingAdvice, type ScalingWindow, scalingAdvice } from "@tutti/profile";
import { assert } from "@tutti/units";

export interface ScalingAdvisorOptions {
  /** Above this bad rate more are asked for. Default: A8's. */
  readonly badRateMax?: number;
  /** Above this idle share some are offered. Default: A8's. */
  readonly idleShareMax?: number;
  /** So many windows in a row must offer some. */
  readonly windowsToRelease?: number;
}

export interface AdvisedWindow extends Pick<ScalingWindow, "executors" | "bad" | "total" | "idleShare"> {
  /** No fewer than these: of a simulation, or of a forecast. Left out: A8 alone decides. */
  readonly fewest?: number;
}

export interface Advised {
  /** A8, of this window alone. */
  readonly window: ScalingAdvice;
  /** What is to be done now. */
  readonly advice: ScalingAdvice;
  /** Executors after that. */
  readonly executors: number;
}

export const WINDOWS_TO_RELEASE = 2;
const KEEP: ScalingAdvice = { kind: "keep" };

export class ScalingAdvisor {
  readonly #thresholds: Pick<ScalingAdvisorOptions, "badRateMax" | "idleShareMax">;
  readonly #windowsToRelease: number;
  /** What each window of the row had to spare. */
  #spare: number[] = [];

  constructor({ badRateMax, idleShareMax, windowsToRelease = WINDOWS_TO_RELEASE }: ScalingAdvisorOptions = {}) {
    assert(windowsToRelease >= 1, "a release after no window");
    this.#thresholds = {
      ...(badRateMax !== undefined && { badRateMax }),
      ...(idleShareMax !== undefined && { idleShareMax }),
    };
    this.#windowsToRelease = windowsToRelease;
  }

  step({ fewest = 1, ...window }: AdvisedWindow): Advised {
    const { executors } = window;
    const raw = scalingAdvice({ ...window, ...this.#thresholds });
    const told = (advice: ScalingAdvice, after: number): Advised => ({ window: raw, advice, executors: after });
    // What is known to be missing is asked for before requests have to suffer for it.
    const missing = Math.max(raw.kind === "add" ? raw.executors : 0, fewest - executors);
    if (missing > 0) {
      this.#spare = [];
      return told({ kind: "add", executors: missing }, executors + missing);
    }
    const spare = raw.kind === "release" ? Math.min(raw.executors, executors - fewest) : 0;
    if (spare === 0) {
      this.#spare = [];
      return told(KEEP, executors);
    }
    this.#spare.push(spare);
    if (this.#spare.length < this.#windowsToRelease) return told(KEEP, executors);
    const released = Math.min(...this.#spare);
    this.#spare = [];
    return told({ kind: "release", executors: released }, executors - released);
  }
}
