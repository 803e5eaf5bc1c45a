/**
 * Shepherd-like: the largest feasible batch first, and preemption when a much larger one turns up.
 *
 * Source: Zhang et al., NSDI '23, its online algorithm Flex, as Symphony v2, §2.2, describes it (and §5 re-implements
 * it): "only maintains one outstanding batch candidate for each model and dispatches the candidate with the biggest
 * batch size when a GPU becomes free"; a running batch is preempted by one at least three times as large. Same:
 * central, eager; a model's candidate is its largest feasible batch: requests next to one another in deadline order
 *   that all end in time, not necessarily from the head; what a preempted batch has done is lost.
 * Chosen: the victim is the smallest running batch (then the smallest id). Its requests go back into their queue and
 * may join
 *   the very batch that takes their place; those that can't be met any more are refused as preempted. Heads that the
 *   largest batch passes over stay queued until they can't run even alone. One group of accelerators, every model
 *   loaded on each: Shepherd's planning into groups has nothing to divide here. `shepherd:4` preempts from four times
 *   as large. Batches are decided on when an accelerator is free, so pulling over a network with delays doesn't overlap
 *   with running.
 */
import { IndexedHeap } from "@tutti/collections";
import type { LatencyTable } from "@tutti/profile";
import type { SimBatch, SimClusterFactory, SimRequest } from "../cluster/simulated-cluster.ts";
import { DeadlineRun } from "./deadline-run.ts";
import { type Baseline, BaselineEngine, WAITING_MAX } from "./engine.ts";
import { numberParameter } from "./parameter.ts";

const PREEMPT_FROM = 3;

export function shepherd(parameter: string | undefined): SimClusterFactory {
  const range = { least: 1.01, most: 1e6, otherwise: PREEMPT_FROM, example: "3", whole: "any" } as const;
  const times = numberParameter({ policy: "shepherd", text: parameter, ...range });
  return (options) => new BaselineEngine(options, { inputs: "pulled" }, (engine) => new Shepherd(engine, times));
}

/** A run of `size` requests of a queue from the place `from` on. */
interface Candidate {
  from: number;
  size: number;
}

class Shepherd implements Baseline {
  readonly #engine: BaselineEngine;
  readonly #times: number;
  readonly #queues: readonly DeadlineRun[];
  readonly #candidates: readonly Candidate[];
  /** Models by −size. A candidate only shrinks with time, so what stands here is never too small. */
  readonly #largest: IndexedHeap;
  /** Busy accelerators by the size of what they run. */
  readonly #running: IndexedHeap;
  /** Models with new requests. */
  #touched: number[] = [];

  constructor(engine: BaselineEngine, times: number) {
    const { models, gpus } = engine.options;
    this.#engine = engine;
    this.#times = times;
    this.#queues = models.map(() => new DeadlineRun());
    this.#candidates = models.map(() => ({ from: 0, size: 0 }));
    this.#largest = new IndexedHeap(models.length);
    this.#running = new IndexedHeap(gpus);
  }

  arrived(request: SimRequest): void {
    const queue = this.#queues[request.model]!;
    if (queue.size >= WAITING_MAX) return this.#engine.refuse(request, "overloaded");
    queue.push(request);
    this.#touched.push(request.model);
  }

  finished({ gpu }: SimBatch): void {
    this.#running.remove(gpu);
  }

  decide(): void {
    const { accepting } = this.#engine;
    for (const model of this.#touched) this.#choose(model);
    for (let gpu = accepting.firstAtMost(0); gpu >= 0 && this.#largest.size > 0;) {
      const model = this.#largest.topKey;
      this.#choose(model);
      if (this.#largest.topKey !== model) continue;
      this.#dispatch(gpu, model);
      gpu = accepting.firstAtMost(0);
    }
    // Preempted requests make their own model a preemptor too; each time something larger runs, so this ends.
    for (let i = 0; i < this.#touched.length; i++) this.#preemptFor(this.#touched[i]!);
    this.#touched.length = 0;
  }

  #preemptFor(model: number): void {
    const candidate = this.#candidates[model]!;
    while (candidate.size > 0 && candidate.size >= this.#times * this.#running.topPriority) {
      const gpu = this.#running.pop();
      const stopped = this.#engine.preempt(gpu);
      for (const request of stopped) {
        if (this.#engine.isFeasible(request)) this.#queues[request.model]!.push(request);
        else this.#engine.refuse(request, "preempted");
      }
      const victim = stopped[0]!.model;
      this.#touched.push(victim);
      this.#choose(victim);
      if (victim !== model) this.#choose(model);
      this.#dispatch(gpu, model);
    }
  }

  #dispatch(gpu: number, model: number): void {
    const { from, size } = this.#candidates[model]!;
    this.#engine.dispatch(gpu, model, this.#queues[model]!.take(from, size));
    this.#running.set(gpu, size);
    this.#choose(model);
  }

  /** Refuses what can't be met any more, and finds the model's largest feasible batch. */
  #choose(model: number): void {
    const queue = this.#queues[model]!;
    while (queue.size > 0 && !this.#engine.isFeasible(queue.at(0))) this.#engine.refuse(queue.shift(), "infeasible");
    const candidate = this.#candidates[model]!;
    largestRun(this.#engine, queue, this.#engine.options.models[model]!.profile, candidate);
    if (candidate.size > 0) this.#largest.set(model, -candidate.size);
    else this.#largest.remove(model);
  }
}

/**
 * The longest run in deadline order that ends by the deadline of its first request; of equal ones the earliest.
 *
 * The later a run begins, the more its deadline allows (cap) and the fewer requests are left (rest): the best is where
 * they meet, or one place before.
 */
function largestRun(engine: BaselineEngine, queue: DeadlineRun, profile: LatencyTable, out: Candidate): void {
  const waiting = queue.size;
  const cap = (place: number): number => largestBy(engine, profile, queue.at(place).deadline);
  const rest = (place: number): number => Math.min(waiting - place, profile.batchSizeMax);
  out.from = 0;
  out.size = waiting === 0 ? 0 : Math.min(cap(0), rest(0));
  if (waiting === 0 || out.size === rest(0)) return;
  const meet = firstPlace(1, waiting - 1, (place) => cap(place) >= rest(place));
  out.size = Math.max(rest(meet), cap(meet - 1));
  out.from = rest(meet) >= out.size ? meet : meet - 1;
  const { size } = out;
  out.from = firstPlace(0, out.from, (place) => cap(place) >= size);
}

/** The largest batch that would end by `deadline`; 0 if none. */
function largestBy({ now, ctrl, perItem, respond }: BaselineEngine, profile: LatencyTable, deadline: number): number {
  const budget = deadline - now - ctrl - respond;
  let fits = 0;
  let fails = profile.batchSizeMax + 1;
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (perItem * middle + profile.byBatchSize[middle]! <= budget) fits = middle;
    else fails = middle;
  }
  return fits;
}

/** The first place of first … last where `holds`, which it does at `last` and everywhere after the first. */
function firstPlace(first: number, last: number, holds: (place: number) => boolean): number {
  while (first < last) {
    const middle = (first + last) >> 1;
    if (holds(middle)) last = middle;
    else first = middle + 1;
  }
  return first;
}
