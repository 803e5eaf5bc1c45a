/**
 * Capped: a work-conserving server that knows no deadlines, as a bare Node server or mosec with a largest batch size.
 *
 * Source: mosec's documentation, "max_batch_size" without a wait time; test/bench/peers has both servers (no paper of
 *   ours describes them).
 * Same: one FIFO queue per model; an accelerator that is idle takes the oldest waiting requests at once, at most the
 *   cap. Nothing is dropped or refused (but where `WAITING_MAX` wait): a late answer is late. `capped:8` sets the cap;
 *   `capped:60%` makes it each model's largest batch that takes at most that share of its SLO.
 * Chosen: every model on every accelerator, the model whose oldest request has waited longest first. `capped` is at its
 *   best cap (best-cap.ts), as an operator would find it by trying; where its workload isn't known beforehand, at 60 %.
 */
import { BoundedQueue, IndexedHeap } from "@tutti/collections";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import type { ScenarioModel } from "../scenario/scenario.ts";
import { type Baseline, BaselineEngine, WAITING_MAX } from "./engine.ts";
import { largestWithin } from "./gathering.ts";
import { numberParameter } from "./parameter.ts";

const USUAL_PERCENT = 60;

/** The largest batch of a model. */
export type CapOf = (model: ScenarioModel) => number;

export function capped(parameter: string | undefined): SimClusterFactory {
  return withCaps(capNamed(parameter));
}

export function withCaps(capOf: CapOf): SimClusterFactory {
  return (options) => {
    const caps = options.models.map(capOf);
    return new BaselineEngine(options, { inputs: "pushed" }, (engine) => new Capped(engine, caps));
  };
}

/** The cap that takes at most this share of a model's SLO: 0 … 100. */
export const capOfPercent =
  (percent: number): CapOf =>
  ({ profile, slo }) =>
    Math.max(1, largestWithin(profile, (slo * percent) / 100));

function capNamed(text: string | undefined): CapOf {
  const share = /^(.*)%$/.exec(text ?? `${USUAL_PERCENT}%`)?.[1];
  const range = { policy: "capped", otherwise: USUAL_PERCENT } as const;
  if (share !== undefined) {
    const asked = { ...range, text: share, least: 1, most: 100, example: "60%", whole: "any" } as const;
    return capOfPercent(numberParameter(asked));
  }
  const cap = numberParameter({ ...range, text, least: 1, most: 1024, example: "8", whole: "whole" });
  return ({ profile }) => Math.min(cap, profile.batchSizeMax);
}

class Capped implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #caps: readonly number[];
  readonly #queues: readonly BoundedQueue<SimRequest>[];
  /** Models with waiting requests, by the arrival of their oldest. */
  readonly #waiting: IndexedHeap;

  constructor(engine: BaselineEngine, caps: readonly number[]) {
    this.#engine = engine;
    this.#caps = caps;
    this.#queues = caps.map(() => new BoundedQueue<SimRequest>(WAITING_MAX));
    this.#waiting = new IndexedHeap(caps.length);
  }

  arrived(request: SimRequest): void {
    const queue = this.#queues[request.model]!;
    if (!queue.push(request)) return this.#engine.refuse(request, "overloaded");
    if (queue.size === 1) this.#waiting.set(request.model, request.arrivedAt);
  }

  decide(): void {
    const { accepting } = this.#engine;
    for (let gpu = accepting.firstAtMost(0); gpu >= 0 && this.#waiting.size > 0; gpu = accepting.firstAtMost(0)) {
      const model = this.#waiting.topKey;
      this.#engine.dispatch(gpu, model, this.#takeOldest(model));
    }
  }

  #takeOldest(model: number): SimRequest[] {
    const queue = this.#queues[model]!;
    const batch: SimRequest[] = [];
    while (batch.length < this.#caps[model]! && queue.size > 0) batch.push(queue.shift()!);
    if (queue.first === undefined) this.#waiting.remove(model);
    else this.#waiting.set(model, queue.first.arrivedAt);
    return batch;
  }
}
