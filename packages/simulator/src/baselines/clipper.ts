/**
 * Clipper-like: a batch size per model container that is felt for, additive increase, multiplicative decrease.
 *
 * Source: Crankshaw et al., NSDI '17 (adaptive batching; replicas adapt independently), as Nexus, §4.3 and §7.2, uses
 * it as
 *   a baseline: lazy dropping, models placed by a batch-oblivious scheduler (static-share.ts; docs/algorithms.md, C8),
 *   several containers on an accelerator where there are more models than accelerators.
 * Same: no profile is used to choose a size: a container runs what waits, at most its present limit, as soon as it is
 * free;
 *   the limit grows additively after a full batch in time and shrinks multiplicatively after one that missed the
 *   objective; queues are FIFO.
 * Chosen: the steps, +1 and a small ×0.9. A batch misses the objective if one of its requests is answered after its
 *   deadline (waiting counts, as for the application that set the SLO; by running time alone the limit would settle at
 *   an l(b) as long as the whole SLO). Nexus, §4.3, and Symphony v1 have a Clipper that sizes batches by the budget of
 *   the oldest request; that would be `eager:head`, and AIMD would never come into it. Dropped lazily is what can't be
 *   met even alone. The replicas of a model pull from one queue, the one of smallest id first. The containers of one
 *   accelerator take turns; in reality they interfere. Model selection and caching have no counterpart here.
 */
import { BoundedQueue, MinTree } from "@tutti/collections";
import type { SimBatch, SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { type Baseline, BaselineEngine, WAITING_MAX } from "./engine.ts";
import { noParameter } from "./parameter.ts";
import { staticShares } from "./static-share.ts";

const INCREASE = 1;
const DECREASE = 0.9;

export function clipper(parameter: string | undefined): SimClusterFactory {
  noParameter("clipper", parameter);
  return (options) => new BaselineEngine(options, { inputs: "pushed" }, (engine) => new Clipper(engine));
}

/** A model on an accelerator. */
interface Container {
  readonly model: number;
  /** Place of its accelerator among those of its model. */
  readonly replica: number;
  readonly sizeMax: number;
  /** The largest batch for now; whole part counts. */
  limit: number;
}

interface Accelerator {
  readonly containers: Container[];
  turn: number;
}

class Clipper implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #queues: readonly BoundedQueue<SimRequest>[];
  readonly #accelerators: readonly Accelerator[];
  /** The accelerators of each model, and which of them are idle (0, otherwise +Infinity). */
  readonly #replicas: readonly { readonly gpus: number[]; readonly idle: MinTree }[];
  /** Models with new requests. */
  readonly #touched: number[] = [];
  readonly #freed: number[] = [];

  constructor(engine: BaselineEngine) {
    const { models, gpus } = engine.options;
    this.#engine = engine;
    this.#queues = models.map(() => new BoundedQueue<SimRequest>(WAITING_MAX));
    const shares = staticShares(models, gpus);
    const hosts: number[][] = models.map(() => []);
    this.#accelerators = shares.map((placed, gpu) => ({
      turn: 0,
      containers: placed.map((model) => {
        const replica = hosts[model]!.push(gpu) - 1;
        return { model, replica, sizeMax: models[model]!.profile.batchSizeMax, limit: 1 };
      }),
    }));
    this.#replicas = hosts.map((its) => ({ gpus: its, idle: new MinTree(its.length) }));
    for (let gpu = 0; gpu < gpus; gpu++) this.#mark(gpu, 0);
  }

  arrived(request: SimRequest): void {
    if (!this.#queues[request.model]!.push(request)) return this.#engine.refuse(request, "overloaded");
    this.#touched.push(request.model);
  }

  accepts(gpu: number): void {
    this.#mark(gpu, 0);
    this.#freed.push(gpu);
  }

  finished({ gpu, model, requests }: SimBatch): void {
    const container = this.#accelerators[gpu]!.containers.find((one) => one.model === model)!;
    const answeredAt = this.#engine.now + this.#engine.respond;
    if (requests.some(({ deadline }) => answeredAt > deadline)) {
      container.limit = Math.max(1, container.limit * DECREASE);
    } else if (requests.length >= Math.floor(container.limit)) {
      container.limit = Math.min(container.sizeMax, container.limit + INCREASE);
    }
  }

  decide(): void {
    for (const gpu of this.#freed) this.#run(gpu);
    this.#freed.length = 0;
    for (const model of this.#touched) {
      const { gpus, idle } = this.#replicas[model]!;
      while (this.#queues[model]!.size > 0) {
        const replica = idle.firstAtMost(0);
        if (replica < 0) break;
        this.#run(gpus[replica]!);
      }
    }
    this.#touched.length = 0;
  }

  /** The next container in turn that has something to run. */
  #run(gpu: number): void {
    const accelerator = this.#accelerators[gpu]!;
    const { containers } = accelerator;
    for (let i = 0; i < containers.length; i++) {
      const container = containers[accelerator.turn]!;
      accelerator.turn = accelerator.turn + 1 === containers.length ? 0 : accelerator.turn + 1;
      const batch = this.#takeBatch(container);
      if (batch.length === 0) continue;
      this.#engine.dispatch(gpu, container.model, batch);
      this.#mark(gpu, Infinity);
      return;
    }
  }

  #takeBatch({ model, limit }: Container): SimRequest[] {
    const queue = this.#queues[model]!;
    const batch: SimRequest[] = [];
    const size = Math.floor(limit);
    while (batch.length < size && queue.size > 0) {
      const request = queue.shift()!;
      if (this.#engine.isFeasible(request)) batch.push(request);
      else this.#engine.refuse(request, "infeasible");
    }
    return batch;
  }

  #mark(gpu: number, value: number): void {
    for (const { model, replica } of this.#accelerators[gpu]!.containers)
      this.#replicas[model]!.idle.set(replica, value);
  }
}
