/**
 * Holds an executor back that takes another's place on the same accelerator (a fraction of it, or the whole again). It
 * loads, warms up and is measured while the other one still serves, says that it could serve, and serves once it is
 * released. So at no moment do both run batches of requests (docs/architecture.md, T4), and the first batches on it are
 * planned with its own latencies.
 */
import type { Alarm, Clock } from "@tutti/ports/clock";
import type { ModelStatus } from "@tutti/protocol";
import { type Micros, after, seconds } from "@tutti/units";

export interface StandbyGateOptions {
  readonly clock: Pick<Clock, "now" | "alarm">;
  readonly couldServe: () => boolean;
  /** Statuses of the loaded models. */
  readonly statuses: () => readonly (ModelStatus | undefined)[];
  readonly engineType: string;
  /** Called once, when all the models that it is to serve are loaded, and plans know what they take here. */
  readonly onLoaded: () => void;
  /** Called once it may serve. */
  readonly onReleased: () => void;
}

/** Whether plans know the latencies of all ready models on this type of executor. */
export const areMeasured = (statuses: readonly (ModelStatus | undefined)[], type: string): boolean =>
  statuses.every((status) => {
    if (status?.state !== "ready") return true;
    return status.byType?.some((one) => one.type === type) ?? status.executorTypes.includes(type);
  });

/** Longest wait for measurements: there may be no profiler, or it may be busy. */
const MEASURED_WITHIN: Micros = seconds(10);

export class StandbyGate {
  readonly #options: StandbyGateOptions;
  readonly #limit: Alarm;
  #isWaiting = false;
  #isLoaded = false;
  #isHeld = true;

  constructor(options: StandbyGateOptions) {
    this.#options = options;
    this.#limit = options.clock.alarm(() => {
      if (options.couldServe()) this.#load();
      else this.#isWaiting = false;
    });
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Called whenever the executor's ability to serve, or what plans know of its models, may have changed. */
  look(): void {
    const { couldServe, statuses, engineType, clock } = this.#options;
    if (this.#isLoaded || !couldServe()) return;
    if (areMeasured(statuses(), engineType)) return this.#load();
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#limit.set(after(clock.now(), MEASURED_WITHIN));
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#limit.clear();
    this.#options.onReleased();
  }

  #load(): void {
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    this.#limit.clear();
    this.#options.onLoaded();
  }
}
