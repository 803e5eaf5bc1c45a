/**
 * The number of executors, epoch after epoch, from measured arrivals, executor time, requests that were refused or
 * late, and idle time. A8 with hysteresis (scaling-advisor.ts) never goes below the need of the measured work
 * (demand.ts), and asks for it before requests are late.
 *
 *   SP1. Between epochs it steps only for a rate that left its band: the work of the last look, less three standard
 *        deviations, is more than the executors can do.
 *   SP2. Bad requests ask for more (A8) only if the number of executors was constant. While others start, the remedy
 *        for bad requests is already on its way.
 *   SP3. Where the need was met and A8 asks for more all the same, the workload needs more than its work says. That
 *        factor is kept, at most 2, and decays slowly.
 */
import { assert } from "@tutti/units";
import { type Demand, type Need, ROOM, dispersionOf, needOf } from "./demand.ts";
import { type Advised, ScalingAdvisor, type ScalingAdvisorOptions } from "./scaling-advisor.ts";

export interface PlannedModel {
  /** In ms. */
  readonly slo: number;
  /** Executor time per request in ms, as in the profile's batches; used until it has been measured. */
  readonly work: number;
}

export interface ScalingPlannerOptions extends ScalingAdvisorOptions {
  readonly models: readonly PlannedModel[];
  readonly executorsMin?: number;
  /** Limit of `executors`; the advice may ask for more. */
  readonly executorsMax: number;
  /** z of `needOf`. */
  readonly room?: number;
  /** Default "work". "advice": A8 with hysteresis alone, at the ends of epochs, for comparison. */
  readonly rule?: ScalingRule;
}

export type ScalingRule = "work" | "advice";

/** Measurements of a short time, by model; all looks take the same time. */
export interface Look {
  readonly millis: number;
  readonly arrivals: ArrayLike<number>;
  /** Requests that ran, and the executor time in ms that they took together. */
  readonly served: ArrayLike<number>;
  readonly busy: ArrayLike<number>;
}

export interface EpochFigures {
  /** Executors that serve, or are about to. */
  readonly executors: number;
  readonly bad: number;
  readonly total: number;
  readonly idleShare: number;
  /** Whether the number of executors was constant (SP2). */
  readonly isSteady: boolean;
}

export interface PlannedStep extends Advised {
  readonly need: Need;
  /** Lower bound of the advice, before `executorsMin` and `executorsMax`. */
  readonly fewest: number;
}

/** Most looks that rates and dispersion are taken from. */
const LOOKS_KEPT_MAX = 64;
/** Weight of one look in the moving average of the work per request. */
const WORK_WEIGHT = 0.2;
/** Standard deviations of SP1. */
const SURE = 3;
/** Highest factor, and its decay per step (SP3). */
const FACTOR_HIGHEST = 2;
const FACTOR_KEPT = 0.98;

export class ScalingPlanner {
  readonly #advisor: ScalingAdvisor;
  readonly #models: readonly PlannedModel[];
  readonly #min: number;
  readonly #max: number;
  readonly #room: number;
  readonly #rule: ScalingRule;
  readonly #work: Float64Array;
  /** The newest last. */
  readonly #looks: { readonly millis: number; readonly arrivals: Float64Array }[] = [];
  /** Number of looks since a rate left its band or an epoch ended: rates are taken from these alone. */
  #fresh = 0;
  /** Factor on the need (SP3). */
  #factor = 1;

  constructor(options: ScalingPlannerOptions) {
    const { models, executorsMin = 1, executorsMax, room = ROOM, rule = "work", ...advisor } = options;
    assert(executorsMin >= 1 && executorsMin <= executorsMax, `${executorsMin} to ${executorsMax} executors`);
    this.#advisor = new ScalingAdvisor(advisor);
    this.#models = models;
    this.#min = executorsMin;
    this.#max = executorsMax;
    this.#room = room;
    this.#rule = rule;
    this.#work = Float64Array.from(models, ({ work }) => work);
  }

  /**
   * Records a look.
   * @param executors - that serve, or are about to
   * @returns whether a rate left its band, so that `step` is to be called now
   */
  look({ millis, arrivals, served, busy }: Look, executors: number): boolean {
    this.#looks.push({ millis, arrivals: Float64Array.from(arrivals) });
    if (this.#looks.length > LOOKS_KEPT_MAX) this.#looks.shift();
    this.#fresh = Math.min(this.#fresh + 1, LOOKS_KEPT_MAX);
    for (let i = 0; i < this.#models.length; i++) {
      if (served[i]! > 0) this.#work[i]! += WORK_WEIGHT * (busy[i]! / served[i]! - this.#work[i]!);
    }
    if (executors >= this.#max || this.#rule === "advice") return false;
    const isBeyond = this.#sureWork(this.#looks.slice(-1)) * this.#factor > executors;
    if (isBeyond) this.#fresh = 1;
    return isBeyond;
  }

  /**
   * Ends an epoch, or reacts to a rate that left its band. Call it at the end of an epoch, or when `look` returns true.
   */
  step({ executors, bad, total, idleShare, isSteady }: EpochFigures): PlannedStep {
    const need = needOf(this.#demands(), this.#room);
    const least = need.work + need.room;
    const fewest = this.#rule === "advice" ? 1 : Math.max(1, Math.ceil(least * this.#factor - 1e-9));
    const limited = Math.max(this.#min, Math.min(fewest, this.#max));
    const figures = isSteady ? { bad, total } : { bad: 0, total: 0 };
    const advised = this.#advisor.step({ ...figures, executors, idleShare, fewest: limited });
    this.#learn(advised, { least, executors, fewest });
    this.#fresh = 0;
    const after = Math.max(this.#min, Math.min(advised.executors, this.#max));
    return { ...advised, executors: after, need, fewest };
  }

  /** Updates the factor (SP3). */
  #learn({ window, executors: after }: Advised, had: { least: number; executors: number; fewest: number }): void {
    this.#factor = Math.max(1, this.#factor * FACTOR_KEPT);
    if (window.kind !== "add" || had.executors < had.fewest || had.least <= 0) return;
    this.#factor = Math.max(this.#factor, Math.min(FACTOR_HIGHEST, after / had.least));
  }

  #demands(): Demand[] {
    const recent = this.#looks.slice(-Math.max(1, this.#fresh));
    const millis = recent.reduce((sum, look) => sum + look.millis, 0);
    return this.#models.map(({ slo }, i): Demand => {
      const arrived = recent.reduce((sum, { arrivals }) => sum + arrivals[i]!, 0);
      return { rate: millis > 0 ? arrived / millis : 0, work: this.#work[i]!, slo, dispersion: this.dispersion(i) };
    });
  }

  /** Variance over mean of the arrivals of a model in a look, by its place. */
  dispersion(model: number): number {
    return dispersionOf(this.#looks.map(({ arrivals }) => arrivals[model]!));
  }

  /** Work that is certain despite the randomness of so short a time (SP1). */
  #sureWork(looks: readonly { readonly millis: number; readonly arrivals: Float64Array }[]): number {
    const millis = looks.reduce((sum, look) => sum + look.millis, 0);
    let work = 0;
    let variance = 0;
    for (let i = 0; i < this.#models.length; i++) {
      const arrived = looks.reduce((sum, { arrivals }) => sum + arrivals[i]!, 0);
      const dispersion = this.dispersion(i);
      work += (arrived * this.#work[i]!) / millis;
      variance += arrived * dispersion * (this.#work[i]! / millis) ** 2;
    }
    return work - SURE * Math.sqrt(variance);
  }
}
