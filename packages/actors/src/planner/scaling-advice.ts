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
  /** Sub-clusters with models: each keeps one, however little is asked for. */
  readonly subClusters: number;
  /** Accelerators that told how busy they were, and how much of them was. */
  readonly measured: { readonly gpus: number; readonly busy: number };
  readonly models: readonly AdvisedModel[];
}

/** More are asked for as long as they are needed; whoever follows the advice has bounds. */
const ACCELERATORS_HIGHEST = 65_536;
/** Bad requests of a window that are no chance. */
const BAD_MIN = 3;
/**
 * Where so much of the accelerators is idle, what couldn't be run in time wouldn't have been with more of them either.
 */
const IDLE_MOST = 0.5;
const SECOND_MS = 1_000;

/**
 * How many accelerators are needed: the scaling planner of the simulator (packages/planning), fed once a second and
 * asked at the end of each window, or at once when a rate outgrows what there is. The advice is kept as a number of
 * accelerators, so that it stays right while they come and go.
 */
export class ScalingAdvice {
  readonly #window: Micros;
  #planner: ScalingPlanner | undefined;
  /** Which models the planner knows. */
  #known = "";
  #wanted = 0;
  #endsAt: Instant | undefined;
  #bad = 0;
  #infeasible = 0;
  #total = 0;
  #idle = 0;
  #time = 0;
  /** Of this window: fewest and most. */
  #gpus = { least: Infinity, most: 0 };
  #last = { badRate: 0, idleShare: 0 };

  constructor(window: Micros) {
    this.#window = window;
  }

  /** What happened in a second. @returns what is to be told */
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

  #step(planner: ScalingPlanner, gpus: number, now: Instant): void {
    const idleShare = this.#time > 0 ? Math.max(0, Math.min(1, this.#idle / this.#time)) : 0;
    const bad = this.#bad + (idleShare <= IDLE_MOST ? this.#infeasible : 0);
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
   * The planner takes its advice for followed. Whoever follows may take his time: what was offered stays offered while
   * this window had it to spare too.
   */
  #standing({ advice, window, executors, fewest }: PlannedStep, gpus: number): number {
    if (advice.kind !== "keep" || window.kind !== "release" || this.#wanted >= gpus) return executors;
    return Math.min(gpus, Math.max(this.#wanted, gpus - window.executors, fewest));
  }

  /**
   * One that knows these models: made anew when others come or some go, since it keeps what it learns by their places.
   */
  #plannerOf(models: readonly AdvisedModel[]): ScalingPlanner {
    const known = models.map(({ number, sloMs }) => `${number}:${sloMs}`).join();
    if (this.#planner === undefined || known !== this.#known) {
      this.#known = known;
      this.#planner = new ScalingPlanner({
        models: models.map(({ sloMs, work }) => ({ slo: sloMs, work })),
        executorsMax: ACCELERATORS_HIGHEST,
      });
    }
    return this.#planner;
  }
}
