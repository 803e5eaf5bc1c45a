/**
 * The closed loop: accelerators come and go as the planner's core asks. The core knows only the values that a planner
 * can measure.
 *
 *   CL1. Ten looks an epoch. Each look measures what has happened before it: requests by when they ended, busy time as
 *        far as it has passed.
 *   CL2. An accelerator that is asked for serves after `startup`. Those that still start are released first, then the
 *        highest ones; they end the batches they have.
 *   CL3. An accelerator is paid for from when it is asked for until it is released and has ended its last batch.
 */
import { ScalingPlanner } from "@tutti/planning";
import type { Instant } from "@tutti/units";
import { modelWork } from "../scenario/model-work.ts";
import type { PlannerOptions, Scenario } from "../scenario/scenario.ts";
import type { ElasticCluster, SimBatch, SimListener, SimRequest } from "../cluster/simulated-cluster.ts";
import { GpuTimes } from "./gpu-times.ts";

const LOOKS = 10;

/** Figures of an epoch of the loop. */
export interface EpochEnd {
  readonly from: number;
  readonly until: number;
  /** µs of all accelerators together. */
  readonly paid: number;
  readonly busy: number;
  /** Accelerators asked for (+) or offered (-) in the epoch. */
  readonly advice: number;
}

export class ClosedLoop implements SimListener {
  readonly #cluster: ElasticCluster;
  readonly #options: PlannerOptions;
  readonly #until: number;
  readonly #planner: ScalingPlanner;
  readonly #onEpoch: (end: EpochEnd) => void;
  readonly #times: GpuTimes;
  /** Counts and times since the last look, by model. */
  readonly #arrivals: Float64Array;
  readonly #served: Float64Array;
  readonly #busy: Float64Array;
  /** Counts since the planner stepped, or the number of accelerators changed. */
  #bad = 0;
  #ended = 0;
  #steadyFrom = 0;
  /** Beginning of the current epoch, and paid and busy time since then. */
  #epochFrom = 0;
  #epochPaid = 0;
  #epochBusy = 0;
  /** Accelerators that the planner wanted last, and at the beginning of the epoch. */
  #wanted: number;
  #epochWanted: number;
  #stepPaid = 0;
  #stepBusy = 0;
  #gpus: number;
  /** Accelerators that are starting, by when they will serve; in that order. */
  readonly #starting: { readonly at: number; count: number }[] = [];
  #looks = 0;

  constructor(scenario: Scenario, cluster: ElasticCluster, onEpoch: (end: EpochEnd) => void) {
    const { models, gpus, planner, duration } = scenario;
    this.#options = planner!;
    this.#cluster = cluster;
    this.#until = duration;
    this.#onEpoch = onEpoch;
    this.#gpus = this.#wanted = this.#epochWanted = this.#options.gpusStart;
    this.#times = new GpuTimes(gpus, this.#gpus);
    this.#arrivals = new Float64Array(models.length);
    this.#served = new Float64Array(models.length);
    this.#busy = new Float64Array(models.length);
    this.#planner = new ScalingPlanner({
      models: models.map((model) => ({ slo: model.slo / 1000, work: modelWork(model) / 1000 })),
      executorsMin: this.#options.gpusMin,
      executorsMax: gpus,
      rule: this.#options.rule,
    });
    cluster.resize(this.#gpus, 0 as Instant);
  }

  /** Handles everything due until `at`; the requests of that moment come next. */
  advance(at: number): void {
    for (let due = this.#nextAt(); due <= at; due = this.#nextAt()) {
      this.#cluster.runUntil(due as Instant);
      while ((this.#starting[0]?.at ?? Infinity) <= due) this.#join(due);
      if (due === this.#lookAt()) this.#look(due);
    }
  }

  arrived({ model }: SimRequest): void {
    this.#arrivals[model]!++;
  }
  dispatched({ gpu, plan }: SimBatch, at: Instant): void {
    this.#times.dispatched(gpu, plan?.startAt ?? at);
  }
  refused(): void {
    this.#bad++;
    this.#ended++;
  }
  finished({ gpu, model, requests }: SimBatch, begin: Instant, end: Instant): void {
    this.#times.finished(gpu, begin, end);
    this.#served[model]! += requests.length;
    this.#busy[model]! += (end - begin) / 1000;
    this.#ended += requests.length;
    for (const { deadline } of requests) if (end > deadline) this.#bad++;
  }

  #nextAt(): number {
    return Math.min(this.#lookAt(), this.#starting[0]?.at ?? Infinity);
  }
  /** Time of the next look; none after the last arrival. */
  #lookAt(): number {
    const at = Math.round((this.#looks + 1) * (this.#options.epoch / LOOKS));
    return at <= this.#until ? at : Infinity;
  }
  get #all(): number {
    return this.#starting.reduce((sum, { count }) => sum + count, this.#gpus);
  }

  #look(at: number): void {
    const epochEnds = ++this.#looks % LOOKS === 0;
    const millis = this.#options.epoch / LOOKS / 1000;
    this.#account(at);
    const look = { millis, arrivals: this.#arrivals, served: this.#served, busy: this.#busy };
    const isBeyond = this.#planner.look(look, this.#all);
    for (const counts of [this.#arrivals, this.#served, this.#busy]) counts.fill(0);
    if (epochEnds || isBeyond) this.#step(at);
    if (!epochEnds) return;
    const advice = this.#wanted - this.#epochWanted;
    this.#onEpoch({ from: this.#epochFrom, until: at, paid: this.#epochPaid, busy: this.#epochBusy, advice });
    this.#epochFrom = at;
    this.#epochWanted = this.#all;
    this.#epochPaid = this.#epochBusy = 0;
  }

  #step(at: number): void {
    const all = this.#all;
    const step = this.#planner.step({
      ...{ executors: all, bad: this.#bad, total: this.#ended },
      idleShare: this.#stepPaid > 0 ? Math.max(0, 1 - this.#stepBusy / this.#stepPaid) : 0,
      // A short time says little: require half an epoch at least.
      isSteady: this.#starting.length === 0 && at - this.#steadyFrom >= this.#options.epoch / 2,
    });
    this.#beginCounting(at);
    if (step.executors > all) {
      const count = step.executors - all;
      this.#starting.push({ at: at + this.#options.startup, count });
    } else if (step.executors < all) this.#release(all - step.executors, at);
    // The planner may want more than there can be.
    const missing = Math.max(step.fewest - all, step.advice.kind === "add" ? step.advice.executors : 0);
    this.#wanted = missing > 0 ? all + missing : step.executors;
  }

  #release(count: number, at: number): void {
    let left = count;
    while (left > 0 && this.#starting.length > 0) {
      const last = this.#starting.at(-1)!;
      const taken = Math.min(left, last.count);
      last.count -= taken;
      left -= taken;
      if (last.count === 0) this.#starting.pop();
    }
    if (left === 0) return;
    this.#resize(this.#gpus - left, at);
  }

  #join(at: number): void {
    this.#account(at);
    this.#resize(this.#gpus + this.#starting.shift()!.count, at);
    this.#beginCounting(at);
  }

  #resize(gpus: number, at: number): void {
    this.#gpus = this.#times.serving = gpus;
    this.#cluster.resize(gpus, at as Instant);
  }

  #account(at: number): void {
    const { paid, busy } = this.#times.since(at, this.#all);
    this.#stepPaid += paid;
    this.#stepBusy += busy;
    this.#epochPaid += paid;
    this.#epochBusy += busy;
  }

  #beginCounting(at: number): void {
    this.#bad = this.#ended = 0;
    this.#stepPaid = this.#stepBusy = 0;
    this.#steadyFrom = at;
  }
}
