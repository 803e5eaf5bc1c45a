/**
 * Orloj: batches by distributions of running times, as in its paper.
 *
 * Source: Yu et al., "Orloj: Predictably Serving Unpredictable DNNs", algorithm 1 and §4; docs/algorithms.md, B2 to B6,
 * on the queues of @tutti/dynamic. The scheduler knows the application of each request and the distributions of their
 * lengths, never a length.
 * Same: eager; a request can be in batches of each size until now + est(app, size) passes its deadline; the largest
 * size with enough requests ("descending (D_k, k)" in the listing; `orloj:urgent` is the prose, earliest deadline
 * first); in it those of highest score. b_τ is 1e-4 per ms.
 * Chosen: distributions are those of 2,000 requests profiled beforehand, and stay. A batch's latency is F_a ·
 * F_mix^{k−1} (`orloj:mixture`: the paper's F_mix^k, whatever the request's own application). The paper has one model
 * and one accelerator: of several models the one of which a request times out first is served first, by the free
 * accelerator of least id. A static model is a dynamic one whose requests take the same time, in batches of 1, 2, 4 ….
 * A number is b_τ per ms: `orloj:1e-6`, `orloj:urgent,1e-6`.
 */
import { type CostStep, FeasibleQueues, LatencyModel, pointHistogram } from "@tutti/dynamic";
import type { Instant } from "@tutti/units";
import { batchCostsOf } from "../dynamic/dynamic-load.ts";
import type { ScenarioModel } from "../scenario/scenario.ts";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { type Baseline, BaselineEngine, WAITING_MAX } from "./engine.ts";

export interface OrlojOptions {
  readonly sizeOrder: "largest" | "urgent";
  readonly members: "joint" | "mixture";
  /** b_τ in 1/µs. */
  readonly chances: number;
}

export function orloj(parameter: string | undefined): SimClusterFactory {
  const options = orlojOptions(parameter);
  return (cluster) =>
    new BaselineEngine(
      cluster,
      { inputs: "pulled", timers: cluster.models.length },
      (engine) => new Orloj(engine, options),
    );
}

/** @throws Error that says what the parameter may be */
function orlojOptions(parameter: string | undefined): OrlojOptions {
  let options: OrlojOptions = { sizeOrder: "largest", members: "joint", chances: 1e-7 };
  for (const part of parameter?.split(",") ?? []) {
    const perMilli = Number(part);
    if (part === "urgent") options = { ...options, sizeOrder: "urgent" };
    else if (part === "mixture") options = { ...options, members: "mixture" };
    else if (part.trim() !== "" && perMilli >= 1e-9 && perMilli <= 1)
      options = { ...options, chances: perMilli / 1000 };
    else {
      const known =
        "'urgent', 'mixture' and a rate of chances per ms from 1e-9 to 1, as in 'orloj:urgent' or 'orloj:1e-6'";
      throw new Error(`policy 'orloj' takes ${known}, but was given '${part}'`);
    }
  }
  return options;
}

interface Waiting {
  readonly app: number;
  readonly deadline: Instant;
  readonly steps?: readonly CostStep[];
  readonly request: SimRequest;
}

class Orloj implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #models: readonly LatencyModel[];
  readonly #queues: readonly FeasibleQueues<Waiting>[];

  constructor(engine: BaselineEngine, options: OrlojOptions) {
    const { sizeOrder, chances } = options;
    this.#engine = engine;
    this.#models = engine.options.models.map((model) => latencyModelOf(model, engine, options));
    this.#queues = this.#models.map(
      (model) => new FeasibleQueues<Waiting>({ model, chances, sizeOrder, requestsMax: WAITING_MAX }),
    );
  }

  arrived(request: SimRequest): void {
    const { now, respond } = this.#engine;
    const queues = this.#queues[request.model]!;
    this.#drop(request.model);
    const slot = queues.add(now, waitingOf(request, respond));
    if (slot === "infeasible") this.#engine.refuse(request, "infeasible");
    else if (slot === "full") this.#engine.refuse(request, "overloaded");
    this.#rearm(request.model);
  }

  timerFired(model: number): void {
    this.#drop(model);
    this.#rearm(model);
  }

  decide(): void {
    const { accepting, now } = this.#engine;
    for (let gpu = accepting.firstAtMost(0); gpu >= 0; gpu = accepting.firstAtMost(0)) {
      const model = this.#mostUrgent();
      if (model < 0) return;
      const queues = this.#queues[model]!;
      const batch: Waiting[] = [];
      queues.take(now, queues.choose(), batch);
      this.#rearm(model);
      const requests = batch.map(({ request }) => request);
      this.#engine.dispatch(gpu, model, requests.sort(byDeadline));
    }
  }

  /** The model whose request times out first, among the models that have a batch to run; −1: none has. */
  #mostUrgent(): number {
    let chosen = -1;
    let earliest = Infinity;
    for (const [model, queues] of this.#queues.entries()) {
      if (queues.size === 0) continue;
      this.#drop(model);
      if (queues.choose() < 0 || queues.nextDropAt >= earliest) continue;
      chosen = model;
      earliest = queues.nextDropAt;
    }
    return chosen;
  }

  #drop(model: number): void {
    const engine = this.#engine;
    this.#queues[model]!.advance(engine.now, ({ request }) => engine.refuse(request, "overloaded"));
  }

  /** Sets the model's timer. A request is feasible up to and including the moment at which it times out. */
  #rearm(model: number): void {
    const queues = this.#queues[model]!;
    if (queues.size > 0) this.#engine.setTimer(model, Math.floor(queues.nextDropAt) + 1);
    else this.#engine.clearTimer(model);
  }
}

/** With costs in steps, a request is feasible until the last one (B8). */
function waitingOf(request: SimRequest, respond: number): Waiting {
  const { app } = request;
  const before = (deadline: Instant): Instant => (deadline - respond) as Instant;
  const steps = request.steps?.map(({ deadline, cost }) => ({ deadline: before(deadline), cost }));
  if (steps === undefined) return { app, deadline: before(request.deadline), request };
  return { app, deadline: steps.at(-1)!.deadline, steps, request };
}

/** Latency model of a model; delays of the network count as part of a batch. */
function latencyModelOf(
  { dynamic, profile }: ScenarioModel,
  { ctrl, perItem }: BaselineEngine,
  { chances, members }: OrlojOptions,
): LatencyModel {
  const solo = profile.latency(1);
  const form =
    dynamic === undefined
      ? (size: number) => ({ fixed: profile.latency(size) - solo, slope: 1 })
      : batchCostsOf(dynamic.costs);
  const costs = (size: number) => {
    const { fixed, slope } = form(size);
    return { fixed: fixed + ctrl + perItem * size, slope };
  };
  const apps = dynamic?.apps ?? [{ alone: pointHistogram(solo), share: 1 }];
  const sizes = dynamic?.sizes ?? powersOfTwo(profile.batchSizeMax);
  return new LatencyModel({ apps, sizes, costs, chances, members });
}

function powersOfTwo(most: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size <= most; size *= 2) sizes.push(size);
  return sizes;
}

const byDeadline = (a: SimRequest, b: SimRequest): number => a.deadline - b.deadline || a.id - b.id;
