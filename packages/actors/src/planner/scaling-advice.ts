import { type PlannedStep, ScalingPlanner } from "@tutti/planning/live";
import type { ScalingAdvised } from "@tutti/protocol";
import { type Instant, type Micros, after } from "@tutti/units";
import type { ModelLoad } from "./load-stats.ts";

/** A model's load, and the accelerator time of a request in ms. */
export interface AdvisedModel extends ModelLoad {
  readonly number: number;
  readonly sloMs: number;
  readonly work: number;
}

export interface AdvisedSecond {
  /** Accelerators that serve, or are about to. */
  readonly gpus: number;
  /** Sub-clusters with models: each keeps one accelerator, however low its load. */
  readonly subClusters: number;
  /** Accelerators that reported how busy they were, and the sum of their busy shares. */
  readonly measured: { readonly gpus: number; readonly busy: number };
  readonly models: readonly AdvisedModel[];
}

/** Bound of the advice. It is high, since the follower of the advice has bounds of its own. */
const ACCELERATORS_HIGHEST = 65_536;
/** Fewest bad requests of a window that are more than chance. */
const BAD_MIN = 3;
/** Idle share above which infeasible requests don't count as bad: more accelerators would not have run them in time. */
const IDLE_MOST = 0.5;
const SECOND_MS = 1_000;

/**
 * Advises how many accelerators are needed. It uses the scaling planner of the simulator (packages/planning), fed once
 * a second and asked at the end of each window, or at once when a rate exceeds the capacity. The advice is kept as a
 * number of accelerators, so that it stays right while they come and go.
 */
export class ScalingAdvice {
  readonly #window: Micros;
  #planner: ScalingPlanner | undefined;
  /** Models that the planner was made for. */
  #known = "";
  /** Places of the models in the planner, by number. */
  #places = new Map<number, number>();
  #wanted = 0;
  #endsAt: Instant | undefined;
  #bad = 0;
  #infeasible = 0;
  #total = 0;
  #idle = 0;
  #time = 0;
  /** Fewest and most accelerators in this window. */
  #gpus = { least: Infinity, most: 0 };
  #last = { badRate: 0, idleShare: 0 };

  constructor(window: Micros) {
    this.#window = window;
  }

  /** Takes the measurements of a second. @returns the advice to publish */
  hear({ gpus, subClusters, measured, models }: AdvisedSecond, now: Instant): ScalingAdvised {
    this.#endsAt ??= after(now, this.#window);
    if (this.#wanted === 0) this.#wanted = gpus;
    this.#gpus = { least: Math.min(this.#gpus.least, gpus), most: Math.max(this.#gpus.most, gpus) };
    for (const { ok, bad, infeasible } of models) {
      this.#bad += bad;
      this.#infeasible += infeasible;
      this.#total += ok + bad + infeasible;
    }
    this.#time += measured.gpus;
    this.#idle += measured.gpus - measured.busy;
    const planner = this.#plannerOf(models);
    const isBeyond = planner.look(
      {
        millis: SECOND_MS,
        arrivals: models.map(({ latestRate }) => latestRate),
        served: models.map(() => 1),
        busy: models.map(({ work }) => work),
      },
      gpus,
    );
    if (isBeyond || now >= this.#endsAt) this.#step(planner, gpus, now);
    return { at: now, advice: Math.max(this.#wanted, subClusters) - gpus, gpus, ...this.#last };
  }

  /** Variance over mean of a model's requests in a second; undefined: it has not been heard of. */
  dispersionOf(number: number): number | undefined {
    const place = this.#places.get(number);
    return place === undefined ? undefined : this.#planner?.dispersion(place);
  }

  #step(planner: ScalingPlanner, gpus: number, now: Instant): void {
    const idleShare = this.#time > 0 ? Math.max(0, Math.min(1, this.#idle / this.#time)) : 0;
    // Rates aren't whole numbers, so where nothing is good the sum of the bad can be above the total.
    const bad = Math.min(this.#total, this.#bad + (idleShare <= IDLE_MOST ? this.#infeasible : 0));
    const isChance = bad < BAD_MIN;
    const step = planner.step({
      executors: gpus,
      bad: isChance ? 0 : bad,
      total: this.#total,
      idleShare,
      isSteady: this.#gpus.least === this.#gpus.most,
    });
    this.#wanted = this.#standing(step, gpus);
    this.#last = { badRate: this.#total > 0 ? bad / this.#total : 0, idleShare };
    [this.#bad, this.#infeasible, this.#total, this.#idle, this.#time] = [0, 0, 0, 0, 0];
    this.#gpus = { least: gpus, most: gpus };
    this.#endsAt = after(now, this.#window);
  }

  /**
   * The advised number of accelerators. The planner takes its advice for followed, but the follower may take its time:
   * a release that was offered stays offered while this window had the accelerators to spare too.
   */
  #standing({ advice, window, executors, fewest }: PlannedStep, gpus: number): number {
    if (advice.kind !== "keep" || window.kind !== "release" || this.#wanted >= gpus) return executors;
    return Math.min(gpus, Math.max(this.#wanted, gpus - window.executors, fewest));
  }

  /**
   * A planner for these models. It is made again when models come or go, since it keeps what it learns by their places.
   */
  #plannerOf(models: readonly AdvisedModel[]): ScalingPlanner {
    const known = models.map(({ number, sloMs }) => `${number}:${sloMs}`).join();
    if (this.#planner === undefined || known !== this.#known) {
      this.#known = known;
      this.#places = new Map(models.map(({ number }, i) => [number, i]));
      this.#planner = new ScalingPlanner({
        models: models.map(({ sloMs, work }) => ({ slo: sloMs, work })),
        executorsMax: ACCELERATORS_HIGHEST,
      });
    }
    return this.#planner;
  }
}
