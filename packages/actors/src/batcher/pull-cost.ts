import { DelayEstimator } from "@tutti/profile";
import { type Instant, type Micros, micros, seconds } from "@tutti/units";

/** Number of samples with weight: older ones fade with a factor of 1 − 1/MEMORY. */
const MEMORY = 512;
/**
 * Samples needed before the slope and the quantile mean anything. Until then the seed, by default COLD, stands for
 * d_ctrl.
 */
const SAMPLES_MIN = 32;
const COLD = micros(1_000);
const SLOPE_MAX = 4;
/** Longest believable delay from a grant to a start. A longer one is ignored, since it would never fade. */
const DELAY_MAX = seconds(60);

/** Delays measured by a predecessor, in microseconds. */
export interface MeasuredDelays {
  readonly ctrl: Micros;
  readonly perItem: number;
}

export interface DelayFloors {
  readonly ctrl: Micros;
  /** Microseconds per item, apart from its bytes. */
  readonly perItem: number;
  /** Microseconds per kilobyte of an item. */
  readonly perKilobyte: number;
}

/**
 * Model of the measured delay(b) = d_ctrl + d_data·b (docs/architecture.md, 5). It runs from the rank timer's firing
 * until the executor could start, pulls included. d_data is the slope of a fading least-squares line over (b, delay),
 * since a pull of one item is mostly round trip and must not be charged b times; d_ctrl is a high quantile of the rest.
 *
 * The slope is bounded by its floor and SLOPE_MAX floors. When the machine is short of processors, batches grow and
 * everything is late at the same time; a line through that blames the items (seen: 2 ms each), which makes batches of
 * more than a few infeasible, and the shortage worse.
 */
export class PullCost {
  readonly #ctrlFloor: Micros;
  /** Microseconds per item, bytes included. */
  readonly #perItemFloor: number;
  readonly #ctrl: DelayEstimator;
  /** Used until there are samples of our own. */
  readonly #seed: MeasuredDelays;
  #count = 0;
  #weight = 0;
  #meanB = 0;
  #meanT = 0;
  #varB = 0;
  #covBT = 0;

  /** @param seed - measurements of the previous owner or of other threads on the same way */
  constructor(floors: DelayFloors, itemBytes: number, seed: MeasuredDelays = { ctrl: COLD, perItem: 0 }) {
    this.#ctrlFloor = floors.ctrl;
    this.#perItemFloor = floors.perItem + (floors.perKilobyte * itemBytes) / 1_024;
    this.#seed = { ctrl: seed.ctrl < DELAY_MAX ? seed.ctrl : COLD, perItem: seed.perItem };
    this.#ctrl = new DelayEstimator({ floor: floors.ctrl, quantile: 0.95, window: seconds(10), capTimes: 5 });
  }

  note(at: Instant, batchSize: number, delay: Micros): void {
    if (!(delay >= 0 && delay <= DELAY_MAX)) return;
    this.#count++;
    this.#weight = Math.min(MEMORY, this.#weight + 1);
    const share = 1 / this.#weight;
    const deltaB = batchSize - this.#meanB;
    const deltaT = delay - this.#meanT;
    this.#meanB += share * deltaB;
    this.#meanT += share * deltaT;
    this.#varB += share * (deltaB * (batchSize - this.#meanB) - this.#varB);
    this.#covBT += share * (deltaB * (delay - this.#meanT) - this.#covBT);
    if (this.#count > SAMPLES_MIN / 2)
      this.#ctrl.note(at, micros(Math.max(0, Math.round(delay - this.perItem() * batchSize))));
  }

  ctrl(at: Instant): Micros {
    // The first samples come from code that is not yet compiled and connections that are not yet open.
    if (this.#count < SAMPLES_MIN) return this.#seed.ctrl > this.#ctrlFloor ? this.#seed.ctrl : this.#ctrlFloor;
    return this.#ctrl.value(at);
  }
  capped(at: Instant): boolean {
    return this.#ctrl.capped(at);
  }
  /** Microseconds per item. */
  perItem(): number {
    const slope = this.#count < SAMPLES_MIN ? this.#seed.perItem : this.#varB < 0.25 ? 0 : this.#covBT / this.#varB;
    return Math.min(SLOPE_MAX * this.#perItemFloor, Math.max(this.#perItemFloor, slope));
  }
  /** The measured delays, for the next owner of the model. */
  measured(at: Instant): MeasuredDelays {
    return { ctrl: this.ctrl(at), perItem: this.perItem() };
  }
}
