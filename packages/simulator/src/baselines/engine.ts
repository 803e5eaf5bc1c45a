/**
 * The engine of every baseline: accelerators, deliveries and timers in virtual time. A baseline only keeps queues and
 * decides.
 *
 *   BASELINE-1. Events of one instant go in the order of docs/algorithms.md, A4: completions, arrivals, timers; then
 *               the baseline decides, once, after all of them.
 *   BASELINE-2. One batch at a time runs on an accelerator; a batch that is dispatched to a busy one starts when it is
 *               free.
 *   BASELINE-3. Every delay is at its upper end, jitter included, as in Tutti's plans: baselines know their delays and
 *               are never late because of them.
 *   BASELINE-5. While the scheduler stands still (noise) runs go on and end. What it would hear meanwhile it hears, in
 *               the order of BASELINE-1, when it goes on.
 */
import { BoundedQueue, IndexedHeap, MinTree } from "@tutti/collections";
import type { LatencyTable } from "@tutti/profile";
import { ALWAYS, type Instant, type Micros, NEVER, assert } from "@tutti/units";
import { dynamicRunTime, longestOf } from "../dynamic/dynamic-load.ts";
import type {
  SimBatch,
  SimClusterOptions,
  SimRefusal,
  SimRequest,
  SteppedCluster,
} from "../cluster/simulated-cluster.ts";
import { plannedDelays } from "../scenario/network-delays.ts";
import { NoiseSource, underNoise } from "../scenario/noise.ts";

/** Most requests that wait at any one place; further ones are refused as overload. */
export const WAITING_MAX = 65_536;

/** Place of a request's input when its batch is decided on. */
export type InputPath =
  /** At the central scheduler; the accelerator pulls it: a batch of b starts ctrl + data·b after the decision. */
  | "pulled"
  /**
   * On its way to the accelerator's host since its arrival: the request joins a queue ctrl + data later, and its batch
   * starts at once.
   */
  | "pushed";

/** A scheduler, as the engine sees it. */
export interface Baseline {
  /** A request has arrived; it must be queued or refused. */
  arrived(request: SimRequest): void;
  /** All events of this moment have been delivered: dispatch the batches that should run. */
  decide(): void;
  /** `setTimer(key, …)` came due. */
  timerFired?(key: number): void;
  /** The accelerator takes a batch again: it is idle, or will be within `lead`. */
  accepts?(gpu: number): void;
  /** The batch is complete. */
  finished?(batch: SimBatch, begin: Instant): void;
}

export interface EngineOptions {
  readonly inputs: InputPath;
  /** An accelerator takes its next batch this long before it is free (µs): pulling then overlaps with running. */
  readonly lead?: number;
  /** Timers are 0 … timers − 1. */
  readonly timers?: number;
}

/** A batch on one accelerator that is dispatched and has not ended. */
interface Run {
  readonly batch: SimBatch;
  readonly begin: Instant;
}

export class BaselineEngine implements SteppedCluster {
  /** Models have the profiles to plan with. */
  readonly options: SimClusterOptions;
  now: Instant = ALWAYS;
  /** Delay from `now` to the start of a batch without inputs (µs). */
  readonly ctrl: number;
  /** Further delay for each input (µs). */
  readonly perItem: number;
  /** Delay from the end of a batch to its publishers. */
  readonly respond: number;
  /** Delay from arrival to the queue, where inputs are pushed. */
  readonly inputDelay: number;
  /** 0 for each accelerator that takes a batch now; otherwise +Infinity. */
  readonly accepting: MinTree;
  /** End of the last batch given to each accelerator. */
  readonly freeAt: Float64Array;

  readonly #noise: NoiseSource | undefined;
  /** Profiles of the models' runs without noise. */
  readonly #alone: readonly LatencyTable[];
  readonly #lead: number;
  readonly #baseline: Baseline;
  readonly #runs = new Map<number, Run>();
  readonly #ends: IndexedHeap;
  readonly #turns: IndexedHeap;
  readonly #timers: IndexedHeap;
  readonly #spareSlots: number[] = [];
  /** The newest run of each accelerator. */
  readonly #newest: Int32Array;
  readonly #pushed = new BoundedQueue<SimRequest>(4 * WAITING_MAX);
  #slots = 0;
  #batches = 0;
  /** Whether events of this moment still wait for a decision. */
  #undecided = false;

  constructor(options: SimClusterOptions, engine: EngineOptions, create: (engine: BaselineEngine) => Baseline) {
    const { models, gpus, network, noise, seed } = options;
    const delays = plannedDelays(network);
    const isPulled = engine.inputs === "pulled";
    const planned = models.map((model) => ({ ...model, profile: underNoise(model.profile, noise) }));
    this.options = noise === undefined ? options : { ...options, models: planned };
    this.#noise = noise && new NoiseSource(noise, { seed, gpus });
    this.#alone = models.map(({ profile }) => profile);
    this.ctrl = isPulled ? delays.ctrl : 0;
    this.perItem = isPulled ? delays.perItem : 0;
    this.respond = delays.respond;
    this.inputDelay = isPulled ? 0 : delays.ctrl + delays.perItem;
    this.#lead = engine.lead ?? 0;
    this.accepting = new MinTree(gpus);
    for (let gpu = 0; gpu < gpus; gpu++) this.accepting.set(gpu, 0);
    this.freeAt = new Float64Array(gpus).fill(-Infinity);
    this.#newest = new Int32Array(gpus).fill(-1);
    this.#ends = new IndexedHeap(Math.max(64, 64 * gpus));
    this.#turns = new IndexedHeap(gpus);
    this.#timers = new IndexedHeap(Math.max(1, engine.timers ?? 0));
    this.#baseline = create(this);
  }

  arrive(request: SimRequest): void {
    const heardAt = this.#heard(request.arrivedAt);
    if (this.inputDelay === 0 || heardAt === request.arrivedAt) this.#enter(heardAt);
    if (this.inputDelay === 0) this.#hand(request);
    else if (!this.#pushed.push(request)) this.refuse(request, "overloaded");
  }

  runUntilIdle(): void {
    for (let next = this.nextAt(); next < NEVER; next = this.nextAt()) this.#step(next);
  }
  runUntil(at: Instant): void {
    for (let next = this.nextAt(); next <= at; next = this.nextAt()) this.#step(next);
    if (at > this.now) this.now = at;
  }

  /**
   * Runs `requests` on an accelerator as soon as their inputs are there and it is free.
   * BASELINE-4. The end of a dynamic model's batch is not known in advance: the baseline may only wait for it.
   * @param takes - latencies on a part of an accelerator, in place of the model's profile
   * @returns the instant at which the batch ends
   */
  dispatch(gpu: number, model: number, requests: readonly SimRequest[], takes?: LatencyTable): Instant {
    const size = requests.length;
    const { dynamic } = this.options.models[model]!;
    const planned = (takes ?? this.#alone[model]!).latency(size);
    const alone = dynamic === undefined ? planned : this.#dynamicRun(model, requests, planned);
    assert(size > 0 && planned < Infinity, `a batch of ${size}`);
    const batch: SimBatch = { id: ++this.#batches, model, gpu, requests };
    const begin = Math.max(this.now + this.ctrl + this.perItem * size, this.freeAt[gpu]!) as Instant;
    const end = (begin + (this.#noise?.runTime(gpu, begin, alone as Micros) ?? alone)) as Instant;
    const slot = this.#spareSlots.pop() ?? this.#slots++;
    this.#runs.set(slot, { batch, begin });
    this.#ends.set(slot, end, gpu);
    this.#newest[gpu] = slot;
    this.freeAt[gpu] = end;
    if (end - this.#lead > this.now) {
      this.accepting.set(gpu, Infinity);
      this.#turns.set(gpu, end - this.#lead);
    }
    this.options.listener.dispatched?.(batch, this.now);
    return end;
  }

  /** Run time of a dynamic model's batch, scaled as the latencies of its size are on that part. */
  #dynamicRun(model: number, requests: readonly SimRequest[], planned: number): number {
    const { dynamic } = this.options.models[model]!;
    const whole = dynamicRunTime(dynamic!, requests.length, longestOf(requests));
    const usual = this.#alone[model]!.latency(requests.length);
    return planned === usual ? whole : Math.round((whole * planned) / usual);
  }

  /** Aborts the batch that runs on an accelerator, and returns its requests: each must be queued or refused. */
  preempt(gpu: number): readonly SimRequest[] {
    const slot = this.#newest[gpu]!;
    const { batch, begin } = this.#runs.get(slot)!;
    this.#ends.remove(slot);
    this.#release(slot, gpu);
    this.freeAt[gpu] = this.now;
    this.#turns.remove(gpu);
    this.accepting.set(gpu, 0);
    const began = begin < this.now ? begin : this.now;
    this.options.listener.finished(batch, began, this.now, false);
    return batch.requests;
  }

  refuse(request: SimRequest, cause: SimRefusal): void {
    this.options.listener.refused(request, cause, this.now);
  }

  /** Sets the timer of a key; a new moment replaces the old one. */
  setTimer(key: number, at: number): void {
    this.#timers.set(key, at);
  }
  clearTimer(key: number): void {
    this.#timers.remove(key);
  }

  /** Whether the request would be answered in time if it ran alone from now on, on an accelerator free at `freeAt`. */
  isFeasible(request: SimRequest, freeAt = -Infinity): boolean {
    const begin = Math.max(this.now + this.ctrl + this.perItem, freeAt);
    return begin + this.options.models[request.model]!.profile.byBatchSize[1]! + this.respond <= request.deadline;
  }

  #hand(request: SimRequest): void {
    this.#undecided = true;
    this.#baseline.arrived(request);
  }

  nextAt(): Instant {
    if (this.#undecided) return this.now;
    const pushed = this.#pushed.first;
    const delivery = pushed === undefined ? Infinity : pushed.arrivedAt + this.inputDelay;
    const due = Math.min(this.#ends.topPriority, this.#turns.topPriority, this.#timers.topPriority, delivery);
    return this.#heard((due < this.now ? this.now : due) as Instant);
  }

  /** Time at which the scheduler hears of an event at `at`. */
  #heard(at: Instant): Instant {
    return this.#noise === undefined || at === NEVER ? at : this.#noise.heardAt(at);
  }

  /**
   * Handles everything before `at`, and the completions at `at`; the arrivals of that moment come next (BASELINE-1).
   */
  #enter(at: Instant): void {
    if (at <= this.now) return;
    for (let next = this.nextAt(); next < at; next = this.nextAt()) this.#step(next);
    this.now = at;
    this.#fireEnds(at);
  }

  #step(at: Instant): void {
    this.now = at;
    this.#fireEnds(at);
    for (let first = this.#pushed.first; first !== undefined; first = this.#pushed.first) {
      if (first.arrivedAt + this.inputDelay > at) break;
      this.#hand(this.#pushed.shift()!);
    }
    while (this.#timers.topPriority <= at) this.#baseline.timerFired?.(this.#timers.pop());
    this.#undecided = false;
    this.#baseline.decide();
  }

  #fireEnds(at: Instant): void {
    while (this.#ends.topPriority <= at) {
      const end = this.#ends.topPriority as Instant;
      const slot = this.#ends.pop();
      const { batch, begin } = this.#runs.get(slot)!;
      this.#release(slot, batch.gpu);
      this.options.listener.finished(batch, begin, end, true);
      this.#baseline.finished?.(batch, begin);
      this.#undecided = true;
    }
    while (this.#turns.topPriority <= at) {
      const gpu = this.#turns.pop();
      this.accepting.set(gpu, 0);
      this.#baseline.accepts?.(gpu);
      this.#undecided = true;
    }
  }

  #release(slot: number, gpu: number): void {
    this.#runs.delete(slot);
    this.#spareSlots.push(slot);
    if (this.#newest[gpu] === slot) this.#newest[gpu] = -1;
  }
}
