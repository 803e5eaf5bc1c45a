/**
 * Central, eager, earliest latest start first: each accelerator that comes free takes the model whose batch must start
 * soonest. What clockwork-like and eager-least-latest have in common.
 *
 *   L1. What the heap says of a model is at most its true latest start: with time a batch only shrinks, and starts later.
 *       A model that has changed says −Infinity; so only the top needs to be looked at, when an accelerator is free.
 */
import { IndexedHeap } from "@tutti/collections";
import type { SimClusterOptions, SimRequest } from "../simulated-cluster.ts";
import { DeadlineRun } from "./deadline-run.ts";
import { type Rival, type RivalEngine, WAITING_MAX } from "./engine.ts";
import { gather } from "./gathering.ts";

export interface LeastLatestRule {
  /** Per model: how large a window its heads must be able to wait for. */
  readonly targetFor: (model: number) => (head: SimRequest) => number;
  /** The size whose latest start a model is judged by, of the batch that it could run. */
  readonly judgedBy: (batchSize: number) => number;
  readonly noted?: (request: SimRequest) => void;
}

export class LeastLatest implements Rival {
  readonly #engine: RivalEngine;
  readonly #rule: LeastLatestRule;
  readonly #models: SimClusterOptions["models"];
  readonly #queues: readonly DeadlineRun[];
  readonly #targets: readonly ((head: SimRequest) => number)[];
  readonly #latest: IndexedHeap;

  constructor(engine: RivalEngine, rule: LeastLatestRule) {
    this.#engine = engine;
    this.#rule = rule;
    this.#models = engine.options.models;
    this.#queues = this.#models.map(() => new DeadlineRun());
    this.#targets = this.#models.map((_, model) => rule.targetFor(model));
    this.#latest = new IndexedHeap(this.#models.length);
  }

  arrived(request: SimRequest): void {
    this.#rule.noted?.(request);
    const queue = this.#queues[request.model]!;
    if (queue.size >= WAITING_MAX) return this.#engine.refuse(request, "overloaded");
    queue.push(request);
    this.#latest.set(request.model, -Infinity);
  }

  decide(): void {
    const engine = this.#engine;
    const latest = this.#latest;
    for (let gpu = engine.accepting.firstAtMost(0); gpu >= 0 && latest.size > 0;) {
      const model = latest.topKey;
      const size = this.#candidate(model, engine.freeAt[gpu]!);
      // The last look may have shown that others are more urgent.
      if (size === 0 || latest.topKey !== model) continue;
      const queue = this.#queues[model]!;
      engine.dispatch(gpu, model, queue.take(0, size));
      if (queue.size > 0) latest.set(model, -Infinity);
      else latest.remove(model);
      gpu = engine.accepting.firstAtMost(0);
    }
  }

  /** Chooses the model's batch, and puts it where it belongs. L1. */
  #candidate(model: number, freeAt: number): number {
    const queue = this.#queues[model]!;
    const { profile } = this.#models[model]!;
    const size = gather({ engine: this.#engine, queue, profile, freeAt, targetFor: this.#targets[model]! });
    if (size === 0) this.#latest.remove(model);
    else
      this.#latest.set(model, queue.at(0).deadline - this.#engine.respond - profile.latency(this.#rule.judgedBy(size)));
    return size;
  }
}
