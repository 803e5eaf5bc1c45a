/**
 * A greedy scheduler that knows how long each request takes alone. It is a reference for schedulers that know
 * distributions, not a bound.
 *
 * Source: none; the costs of batches are those of Orloj, §4.2 (docs/algorithms.md, B3), with the true lengths.
 * Rule: eager. The pending request of earliest deadline leads. With it go as many others, in order of deadline, as end
 * by then; the largest supported size of those runs. `knows-lengths:similar` takes only others that aren't longer than
 * the leader, the longest first: they cost it no padding. `knows-lengths:throughput` has no leader: of all (size,
 * longest member) that end by the deadlines of enough members it runs the one of most requests per time.
 * Chosen: of several models the one whose leader is due first; static ones have their profile.
 */
import type { ScenarioModel } from "../scenario/scenario.ts";
import { dynamicRunTime } from "../dynamic/dynamic-load.ts";
import type { SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { DeadlineRun } from "./deadline-run.ts";
import { type Baseline, BaselineEngine, WAITING_MAX } from "./engine.ts";

type Choice = "deadline" | "similar" | "throughput";

export function knowsLengths(parameter: string | undefined): SimClusterFactory {
  const choice = parameter ?? "deadline";
  if (choice !== "deadline" && choice !== "similar" && choice !== "throughput")
    throw new Error(
      `policy 'knows-lengths' takes 'deadline', 'similar' or 'throughput', as in 'knows-lengths:similar', but was given '${choice}'`,
    );
  return (options) => new BaselineEngine(options, { inputs: "pulled" }, (engine) => new KnowsLengths(engine, choice));
}

class KnowsLengths implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #choice: Choice;
  readonly #queues: readonly DeadlineRun[];
  readonly #sizes: readonly (readonly number[])[];

  constructor(engine: BaselineEngine, choice: Choice) {
    this.#engine = engine;
    this.#choice = choice;
    this.#queues = engine.options.models.map(() => new DeadlineRun());
    this.#sizes = engine.options.models.map(
      ({ dynamic, profile }) => dynamic?.sizes ?? Array.from({ length: profile.batchSizeMax }, (_, i) => i + 1),
    );
  }

  arrived(request: SimRequest): void {
    const queue = this.#queues[request.model]!;
    if (queue.size >= WAITING_MAX) this.#engine.refuse(request, "overloaded");
    else queue.push(request);
  }

  decide(): void {
    const { accepting } = this.#engine;
    for (let gpu = accepting.firstAtMost(0); gpu >= 0; gpu = accepting.firstAtMost(0)) {
      const model = this.#firstDue();
      if (model < 0) return;
      const batch = this.#batchOf(model);
      const queue = this.#queues[model]!;
      for (const request of batch) queue.remove(request);
      this.#engine.dispatch(gpu, model, batch);
    }
  }

  /**
   * The model whose leader is due first; −1: nothing waits. Requests that can't run in time even alone are refused on
   * the way.
   */
  #firstDue(): number {
    let first = -1;
    let due = Infinity;
    for (const [model, queue] of this.#queues.entries()) {
      // Infeasible requests need not come first: a long one becomes late before a short one of an earlier deadline.
      for (let i = 0; i < queue.size;) {
        const request = queue.at(i);
        if (this.#endsBy(request.deadline, model, 1, request.solo)) i++;
        else this.#engine.refuse(queue.take(i, 1)[0]!, "infeasible");
      }
      if (queue.size === 0 || queue.at(0).deadline >= due) continue;
      first = model;
      due = queue.at(0).deadline;
    }
    return first;
  }

  #batchOf(model: number): SimRequest[] {
    if (this.#choice === "throughput") return this.#mostPerTime(model);
    const queue = this.#queues[model]!;
    const leader = queue.at(0);
    const others = Array.from({ length: queue.size - 1 }, (_, i) => queue.at(i + 1));
    const wanted =
      this.#choice === "deadline"
        ? others
        : others.filter(({ solo }) => solo <= leader.solo).sort((a, b) => b.solo - a.solo || a.id - b.id);
    const batch = [leader];
    const sizes = this.#sizes[model]!;
    let longest = leader.solo;
    for (const request of wanted) {
      if (batch.length === sizes.at(-1)) break;
      const then = Math.max(longest, request.solo);
      if (!this.#endsBy(leader.deadline, model, batch.length + 1, then)) continue;
      batch.push(request);
      longest = then;
    }
    const size = sizes.findLast((one) => one <= batch.length)!;
    return batch.slice(0, size).sort(byDeadline);
  }

  /**
   * The batch of most requests per time, over all sizes and longest members. There is one: the leader alone can end in
   * time.
   */
  #mostPerTime(model: number): SimRequest[] {
    const queue = this.#queues[model]!;
    const waiting = Array.from({ length: queue.size }, (_, i) => queue.at(i)).sort(
      (a, b) => a.solo - b.solo || a.id - b.id,
    );
    let best: SimRequest[] = [];
    let bestRate = 0;
    for (const size of this.#sizes[model]!) {
      for (let last = waiting.length - 1; last >= size - 1; last--) {
        const { solo } = waiting[last]!;
        const rate = size / this.#runTime(model, size, solo);
        if (rate <= bestRate) continue;
        const fits = waiting.slice(0, last + 1).filter(({ deadline }) => this.#endsBy(deadline, model, size, solo));
        if (fits.length < size) continue;
        best = fits.sort(byDeadline).slice(0, size);
        bestRate = rate;
      }
    }
    return best;
  }

  #endsBy(deadline: number, model: number, size: number, longest: number): boolean {
    const { now, ctrl, perItem, respond } = this.#engine;
    return now + ctrl + perItem * size + this.#runTime(model, size, longest) + respond <= deadline;
  }

  #runTime(model: number, size: number, longest: number): number {
    const { dynamic, profile }: ScenarioModel = this.#engine.options.models[model]!;
    return dynamic === undefined ? profile.latency(size) : dynamicRunTime(dynamic, size, longest);
  }
}

const byDeadline = (a: SimRequest, b: SimRequest): number => a.deadline - b.deadline || a.id - b.id;
