/**
 * Triton-like: NVIDIA Triton's dynamic batcher, with a preferred batch size and a maximum queue delay per model.
 *
 * Source: Triton Inference Server, user guide, "Dynamic Batcher" and "Instance Groups" (no paper of ours describes it).
 * Same: one FIFO queue per model, one instance of every model on every accelerator; when an instance is available a
 * batch of
 *   the preferred size is sent at once; if fewer wait, all of them are sent once the oldest has waited for the maximum
 *   queue delay. `triton:5ms` sets that delay; `triton` has Triton's own default, 0: whatever waits is sent at once.
 * Chosen: what a careful operator would configure. The preferred (and largest) size of a model is the largest of which
 * its
 *   SLO allows two in a row, 2·l(b) ≤ SLO; a request times out (`timeout_action: REJECT`, each with its own SLO) once a
 *   batch of that size can't answer it in time any more, looked at when its batch is formed: without a time-out an
 *   overloaded FIFO is late for ever. Instances on one accelerator run one after the other, the model whose oldest
 *   request has waited longest first (really they share the device and slow one another).
 */
import { BoundedQueue, IndexedHeap } from "@tutti/collections";
import type { Micros } from "@tutti/units";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { type Baseline, BaselineEngine, WAITING_MAX } from "./engine.ts";
import { largestWithin } from "./gathering.ts";
import { NO_TIME, durationParameter } from "./parameter.ts";

export function triton(parameter: string | undefined): SimClusterFactory {
  const queueDelayMax = durationParameter("triton", parameter, NO_TIME);
  return (options) => {
    const engine = { inputs: "pushed", timers: options.models.length } as const;
    return new BaselineEngine(options, engine, (one) => new Triton(one, queueDelayMax));
  };
}

class Triton implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #queueDelayMax: Micros;
  readonly #queues: readonly BoundedQueue<SimRequest>[];
  readonly #preferred: readonly number[];
  /** Models with a batch to send, by the arrival of their oldest request. */
  readonly #ready: IndexedHeap;

  constructor(engine: BaselineEngine, queueDelayMax: Micros) {
    const { models } = engine.options;
    this.#engine = engine;
    this.#queueDelayMax = queueDelayMax;
    this.#queues = models.map(() => new BoundedQueue<SimRequest>(WAITING_MAX));
    this.#preferred = models.map(({ profile, slo }) => Math.max(1, largestWithin(profile, slo / 2)));
    this.#ready = new IndexedHeap(models.length);
  }

  arrived(request: SimRequest): void {
    const { model } = request;
    const queue = this.#queues[model]!;
    if (!queue.push(request)) return this.#engine.refuse(request, "overloaded");
    if (queue.size === 1 || queue.size === this.#preferred[model]) this.#judge(model);
  }

  timerFired(model: number): void {
    this.#judge(model);
  }

  decide(): void {
    const { accepting } = this.#engine;
    for (let gpu = accepting.firstAtMost(0); gpu >= 0 && this.#ready.size > 0;) {
      const model = this.#ready.topKey;
      // Rejecting may leave too few, whose oldest may wait on.
      if (this.#rejectOldest(model)) continue;
      const batch = this.#takeBatch(model);
      this.#engine.dispatch(gpu, model, batch);
      this.#judge(model);
      gpu = accepting.firstAtMost(0);
    }
  }

  /** Is there a batch to send now, or when will there be? */
  #judge(model: number): void {
    const queue = this.#queues[model]!;
    const oldest = queue.first;
    this.#engine.clearTimer(model);
    this.#ready.remove(model);
    if (oldest === undefined) return;
    const sendAt = oldest.arrivedAt + this.#engine.inputDelay + this.#queueDelayMax;
    const isReady = queue.size >= this.#preferred[model]! || sendAt <= this.#engine.now;
    if (isReady) this.#ready.set(model, oldest.arrivedAt);
    else this.#engine.setTimer(model, sendAt);
  }

  /** Whether the oldest had timed out. */
  #rejectOldest(model: number): boolean {
    const queue = this.#queues[model]!;
    const before = queue.size;
    for (let first = queue.first; first !== undefined && this.#reject(first); first = queue.first) queue.shift();
    if (queue.size === before) return false;
    this.#judge(model);
    return true;
  }

  /** Where SLOs differ, requests behind the oldest may have timed out before it. */
  #takeBatch(model: number): SimRequest[] {
    const queue = this.#queues[model]!;
    const size = this.#preferred[model]!;
    const batch: SimRequest[] = [];
    while (batch.length < size && queue.size > 0) {
      const request = queue.shift()!;
      if (batch.length === 0 || !this.#reject(request)) batch.push(request);
    }
    return batch;
  }

  #reject(request: SimRequest): boolean {
    const { now, respond, options } = this.#engine;
    const latency = options.models[request.model]!.profile.latency(this.#preferred[request.model]!);
    if (now + latency + respond <= request.deadline) return false;
    this.#engine.refuse(request, this.#engine.isFeasible(request) ? "overloaded" : "infeasible");
    return true;
  }
}
