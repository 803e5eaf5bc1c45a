/**
 * Central, eager, earliest latest start first: each accelerator that becomes free takes the model whose batch must
 * start soonest. Clockwork-like and eager-least-latest share this rule.
 *
 *   LEAST-1. The heap's value for a model is at most its true latest start: with time a batch only shrinks, and starts
 *            later. A model that has changed has −Infinity. So only the top needs to be looked at when an accelerator
 *            is free.
 */
import { IndexedHeap } from "@tutti/collections";
import type { Instant } from "@tutti/units";
import type { SimBatch, SimClusterOptions, SimRequest } from "../cluster/simulated-cluster.ts";
import { DeadlineRun } from "./deadline-run.ts";
import { type Baseline, type BaselineEngine, WAITING_MAX } from "./engine.ts";
import { gather } from "./gathering.ts";
import { RecentRuns } from "./recent-runs.ts";

export interface LeastLatestRule {
  /** Per model: size of the window that its heads must be able to wait for. */
  readonly targetFor: (model: number) => (head: SimRequest) => number;
  /** Batch size whose latest start a model is judged by, given the batch that it could run. */
  readonly judgedBy: (batchSize: number) => number;
  readonly noted?: (request: SimRequest) => void;
  /**
   * For dynamic models, in µs: actions are sent for the predicted end of the running batch, and dropped when they are
   * this far behind it. Default: plan with mean times of batches, and wait for the running batch.
   */
  readonly dropAfter?: number;
}

export class LeastLatest implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #rule: LeastLatestRule;
  readonly #models: SimClusterOptions["models"];
  readonly #queues: readonly DeadlineRun[];
  readonly #targets: readonly ((head: SimRequest) => number)[];
  readonly #latest: IndexedHeap;
  /** Recent runs of dynamic models, where actions are dropped. */
  readonly #recent: readonly (RecentRuns | undefined)[];

  constructor(engine: BaselineEngine, rule: LeastLatestRule) {
    this.#engine = engine;
    this.#rule = rule;
    this.#models = engine.options.models;
    this.#queues = this.#models.map(() => new DeadlineRun());
    this.#targets = this.#models.map((_, model) => rule.targetFor(model));
    this.#latest = new IndexedHeap(this.#models.length);
    this.#recent = this.#models.map(({ dynamic, profile }) =>
      dynamic === undefined || rule.dropAfter === undefined ? undefined : new RecentRuns(dynamic, profile),
    );
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
    for (let gpu = engine.accepting.firstAtMost(0); gpu >= 0; gpu = engine.accepting.firstAtMost(0)) {
      const batch = this.#take(engine.freeAt[gpu]!);
      const [first] = batch;
      if (first === undefined) return;
      this.#dispatch(gpu, first.model, batch);
    }
  }

  /** The running batch is behind its prediction: drops the batch that was sent to follow it, with all its requests. */
  timerFired(): void {
    for (const request of this.#take(this.#engine.now)) this.#engine.refuse(request, "overloaded");
  }

  finished({ gpu, model, requests }: SimBatch, begin: Instant): void {
    const recent = this.#recent[model];
    if (recent === undefined) return;
    this.#engine.clearTimer(gpu);
    recent.note(requests.length, this.#engine.now - begin);
  }

  #dispatch(gpu: number, model: number, batch: readonly SimRequest[]): void {
    const engine = this.#engine;
    const recent = this.#recent[model];
    const { dropAfter } = this.#rule;
    const begin = Math.max(engine.now + engine.ctrl + engine.perItem * batch.length, engine.freeAt[gpu]!);
    engine.dispatch(gpu, model, batch);
    if (recent !== undefined) engine.setTimer(gpu, Math.ceil(begin + recent.byBatchSize[batch.length]! + dropAfter!));
  }

  /** The batch of the most urgent model; empty where nothing waits. */
  #take(freeAt: number): readonly SimRequest[] {
    const latest = this.#latest;
    while (latest.size > 0) {
      const model = latest.topKey;
      const size = this.#candidate(model, freeAt);
      // The last evaluation may have shown that others are more urgent.
      if (size === 0 || latest.topKey !== model) continue;
      const queue = this.#queues[model]!;
      const batch = queue.take(0, size);
      if (queue.size > 0) latest.set(model, -Infinity);
      else latest.remove(model);
      return batch;
    }
    return [];
  }

  /** Chooses the model's batch, and updates the model's place in the heap (LEAST-1). */
  #candidate(model: number, freeAt: number): number {
    const queue = this.#queues[model]!;
    const recent = this.#recent[model];
    const profile = recent ?? this.#models[model]!.profile;
    const gathered = gather({ engine: this.#engine, queue, profile, freeAt, targetFor: this.#targets[model]! });
    const size = recent === undefined ? gathered : recent.supported(gathered);
    if (size === 0) this.#latest.remove(model);
    else {
      const latency = profile.byBatchSize[this.#rule.judgedBy(size)]!;
      this.#latest.set(model, queue.at(0).deadline - this.#engine.respond - latency);
    }
    return size;
  }
}
