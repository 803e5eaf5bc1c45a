/**
 * Advice on scaling with hysteresis (docs/algorithms.md, A8): more executors at once, fewer only after windows in a row
 * that all offered some.
 *
 *   SA1. Advice never adds and releases at the same time, and never releases the last executor.
 *   SA2. It releases the least number that any window of the row had to spare.
 *   SA3. It never goes below `fewest`, a lower bound from a simulation or a forecast.
 */
import { type ScalingAdvice, type ScalingWindow, scalingAdvice } from "@tutti/profile";
import { assert } from "@tutti/units";

export interface ScalingAdvisorOptions {
  /** Bad rate above which more executors are asked for. Default: A8's. */
  readonly badRateMax?: number;
  /** Idle share above which some executors are offered. Default: A8's. */
  readonly idleShareMax?: number;
  /** Number of windows in a row that must offer some. */
  readonly windowsToRelease?: number;
}

export interface AdvisedWindow extends Pick<ScalingWindow, "executors" | "bad" | "total" | "idleShare"> {
  /** Lower bound from a simulation or a forecast. Left out: A8 alone decides. */
  readonly fewest?: number;
}

export interface Advised {
  /** A8's advice on this window alone. */
  readonly window: ScalingAdvice;
  /** Advice to follow now. */
  readonly advice: ScalingAdvice;
  /** Executors after the advice. */
  readonly executors: number;
}

export const WINDOWS_TO_RELEASE = 2;
const KEEP: ScalingAdvice = { kind: "keep" };

export class ScalingAdvisor {
  readonly #thresholds: Pick<ScalingAdvisorOptions, "badRateMax" | "idleShareMax">;
  readonly #windowsToRelease: number;
  /** Number of executors that each window of the row had to spare. */
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
    // Ask for executors that are known to be missing before requests are late.
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
