/**
 * The requests of one model by the batch sizes in which they can still end in time (Orloj, algorithm 1;
 * docs/algorithms.md, B4 to B6 and B8).
 *
 *   FQ1. A request is in Q_k until T_drop(k) = deadline − est(app, k), that moment included. As est doesn't fall with
 *        k, queues are nested: it leaves the large sizes first, and leaving the least one means that it timed out.
 *   FQ2. Every request leaves exactly once: in a batch, dropped, or removed.
 *   FQ3. A reset of the base time changes no order.
 */
import { IndexedHeap } from "@tutti/collections";
import { type Instant, assert } from "@tutti/units";
import type { LatencyModel } from "./latency-model.ts";
import { KineticTournament } from "./priority/kinetic-tournament.ts";
import type { PriorityStructure } from "./priority/priority-structure.ts";

/** Total cost of ending after `deadline`; costs never fall from step to step (B8). */
export interface CostStep {
  readonly deadline: Instant;
  readonly cost: number;
}

export interface DynamicRequest {
  /** Number of its application in the latency model. */
  readonly app: number;
  /** The last deadline that is still worth meeting: feasibility is decided by it. */
  readonly deadline: Instant;
  /** Default: a cost of 1 for ending after the deadline. */
  readonly steps?: readonly CostStep[];
}

/**
 * "largest": the largest k with k requests (the listing, and better); "urgent": the earliest deadline first (the
 * prose). B4 compares them.
 */
export type SizeOrder = "largest" | "urgent";

export interface FeasibleQueuesOptions {
  readonly model: LatencyModel;
  /** b_τ in 1/µs. */
  readonly chances: number;
  readonly requestsMax: number;
  readonly sizeOrder?: SizeOrder;
  /** Default: the kinetic tournament. */
  readonly structure?: () => PriorityStructure;
}

/** e^{b(t−t0)} beyond which the base time is reset, and b·Δ beyond which a new request resets it or is clamped (B6). */
const SPAN_MAX = 32;
const DELTA_MAX = 300;

interface Queue {
  readonly place: number;
  readonly lines: PriorityStructure;
  /** Slots by T_drop. */
  readonly drops: IndexedHeap;
  /** Slots by the moment at which their line changes. */
  readonly milestones: IndexedHeap;
  /** Slots by deadline, for D_k; only where sizes are chosen by deadline. */
  readonly deadlines: IndexedHeap | undefined;
}

export class FeasibleQueues<Request extends DynamicRequest> {
  readonly #chances: number;
  readonly #requestsMax: number;
  readonly #requests: (Request | undefined)[] = [];
  readonly #free: number[] = [];
  /** Arrival number of each slot. */
  readonly #orders: number[] = [];
  /** e^{−bΔ} of requests with a single cost step: it is the same in all queues. */
  readonly #decays: number[] = [];
  readonly #queues: readonly Queue[];
  readonly #popped: number[] = [];
  #model: LatencyModel;
  #base: Instant = 0 as Instant;
  #arrivals = 0;
  #size = 0;

  constructor({ model, chances, requestsMax, sizeOrder = "largest", structure }: FeasibleQueuesOptions) {
    assert(chances > 0 && requestsMax > 0, "b_τ and the bound of requests are positive");
    this.#model = model;
    this.#chances = chances;
    this.#requestsMax = requestsMax;
    this.#queues = model.sizes.map((_, place) => ({
      place,
      lines: structure?.() ?? new KineticTournament(),
      drops: new IndexedHeap(requestsMax),
      milestones: new IndexedHeap(requestsMax),
      deadlines: sizeOrder === "urgent" ? new IndexedHeap(requestsMax) : undefined,
    }));
  }

  get size(): number {
    return this.#size;
  }
  /** Number of requests that could be in a batch of the size at `place`. */
  sizeAt(place: number): number {
    return this.#queues[place]!.lines.size;
  }
  /** When the next request times out. */
  get nextDropAt(): Instant {
    return this.#queues[0]!.drops.topPriority as Instant;
  }
  request(slot: number): Request | undefined {
    return this.#requests[slot];
  }

  /** @returns its slot, until it leaves; "infeasible" where even the least batch would be late; "full" at the bound */
  add(now: Instant, request: Request): number | "infeasible" | "full" {
    if (now + this.#model.estimate(request.app, 0) > request.deadline) return "infeasible";
    if (this.#size >= this.#requestsMax) return "full";
    if (this.#size === 0 || this.#isBaseOld(now) || this.#chances * (request.deadline - this.#base) > DELTA_MAX)
      this.#rebase(now);
    const slot = this.#free.pop() ?? this.#requests.length;
    this.#requests[slot] = request;
    this.#orders[slot] = ++this.#arrivals;
    this.#decays[slot] = this.#decay(request.deadline);
    this.#size++;
    for (const queue of this.#queues) if (!this.#enter(queue, slot, request, now)) break;
    return slot;
  }

  /** Takes out a request that is no longer wanted. */
  remove(slot: number): Request | undefined {
    const request = this.#requests[slot];
    if (request === undefined) return undefined;
    for (const queue of this.#queues) if (!leave(queue, slot)) break; // nested: it is in none of the larger ones either
    this.#requests[slot] = undefined;
    this.#free.push(slot);
    this.#size--;
    return request;
  }

  /**
   * Handles everything due until `now`: lines change, requests leave the sizes that they no longer fit, and a request
   * that fits no size is dropped.
   */
  advance(now: Instant, onDropped: (request: Request) => void): void {
    if (this.#size > 0 && this.#isBaseOld(now)) this.#rebase(now);
    // Larger sizes first: a request that leaves the smallest size has left all others.
    for (let place = this.#queues.length - 1; place >= 0; place--) {
      const queue = this.#queues[place]!;
      while (queue.drops.topPriority < now) {
        const slot = queue.drops.topKey;
        if (place > 0) leave(queue, slot);
        else onDropped(this.remove(slot)!);
      }
      while (queue.milestones.topPriority <= now) this.#draw(queue, queue.milestones.topKey, now, "again");
    }
  }

  /**
   * Chooses the batch size (B4, step 4). Call `advance` before.
   * @returns the place of a batch size for which there are enough requests; −1: none
   */
  choose(): number {
    let chosen = -1;
    let earliest = Infinity;
    for (const { place, lines, deadlines } of this.#queues) {
      if (lines.size < this.#model.sizes[place]!) break; // nested: no larger size has more
      // D_k never falls with k; of equal ones the larger batch is chosen.
      if (deadlines !== undefined && deadlines.topPriority > earliest) break;
      earliest = deadlines?.topPriority ?? earliest;
      chosen = place;
    }
    return chosen;
  }

  /** Takes the best requests for a batch size out of all queues, best score first. Call `advance` before. */
  take(now: Instant, place: number, out: Request[]): void {
    const count = this.#queues[place]!.lines.popBest(this.#growth(now), this.#model.sizes[place]!, this.#popped);
    for (let i = 0; i < count; i++) out.push(this.#removePopped(this.#popped[i]!));
  }

  /** Score p of a request in the queue of a size, from B2's closed forms. */
  scoreAt(now: Instant, slot: number, place: number): number {
    const request = this.#requests[slot]!;
    const curve = this.#model.curve(request.app, place);
    if (request.steps === undefined) return curve.scoreAt(request.deadline - now);
    let [score, before] = [0, 0];
    for (const { deadline, cost } of request.steps) {
      score += (cost - before) * curve.scoreAt(deadline - now);
      before = cost;
    }
    return score;
  }

  /**
   * Replaces the distributions, for the same applications and batch sizes: pending requests are scored and checked
   * again (B9).
   */
  refresh(now: Instant, model: LatencyModel, onDropped: (request: Request) => void): void {
    assert(model.sizes.length === this.#queues.length, "batch sizes stay as they are");
    this.#model = model;
    this.#setBase(now);
    for (const { lines } of this.#queues) lines.rebase();
    for (const [slot, request] of this.#requests.entries()) {
      if (request === undefined) continue;
      let fits = true;
      for (const queue of this.#queues) {
        const wasIn = leave(queue, slot);
        if (fits) fits = this.#enter(queue, slot, request, now);
        else if (!wasIn) break;
      }
      if (!this.#queues[0]!.drops.has(slot)) onDropped(this.remove(slot)!);
    }
  }

  /** Adds a request to a queue (FQ1). @returns whether it fits */
  #enter(queue: Queue, slot: number, request: Request, now: Instant): boolean {
    const dropAt = request.deadline - this.#model.estimate(request.app, queue.place);
    if (dropAt < now) return false;
    queue.drops.set(slot, dropAt);
    queue.deadlines?.set(slot, request.deadline);
    this.#draw(queue, slot, now, "first");
    return true;
  }

  /** Sets the line of a request, from now until its next milestone. */
  #draw(queue: Queue, slot: number, now: Instant, time: "first" | "again"): void {
    const { app, deadline, steps } = this.#requests[slot]!;
    const curve = this.#model.curve(app, queue.place);
    let [alpha, beta, next] = [0, 0, Infinity];
    if (steps === undefined) {
      const phase = curve.phaseAt(deadline, now);
      alpha = curve.alpha(phase, this.#decays[slot]!);
      beta = curve.beta(phase);
      next = curve.milestone(deadline, phase);
    } else {
      let before = 0;
      for (const step of steps) {
        const phase = curve.phaseAt(step.deadline, now);
        alpha += (step.cost - before) * curve.alpha(phase, this.#decay(step.deadline));
        beta += (step.cost - before) * curve.beta(phase);
        next = Math.min(next, curve.milestone(step.deadline, phase));
        before = step.cost;
      }
    }
    if (time === "first") queue.lines.insert(slot, alpha, beta, deadline, this.#orders[slot]!);
    else queue.lines.update(slot, alpha, beta);
    // The request leaves before its next milestone.
    if (next > queue.drops.priority(slot)) queue.milestones.remove(slot);
    else queue.milestones.set(slot, next);
  }

  /** e^{−bΔ}. Δ is clamped: a request with so large a Δ isn't urgent, and its score is about 0 (B6). */
  #decay(deadline: Instant): number {
    return Math.exp(-Math.min(DELTA_MAX, this.#chances * (deadline - this.#base)));
  }
  /** x(t). */
  #growth(now: Instant): number {
    return Math.exp(this.#chances * (now - this.#base));
  }
  #isBaseOld(now: Instant): boolean {
    return this.#chances * (now - this.#base) > SPAN_MAX;
  }

  /** FQ3. O(n · |S| · bins). */
  #rebase(now: Instant): void {
    this.#setBase(now);
    for (const queue of this.#queues) {
      queue.lines.rebase();
      if (this.#size === 0) continue;
      for (const [slot, request] of this.#requests.entries())
        if (request !== undefined && queue.drops.has(slot)) this.#draw(queue, slot, now, "again");
    }
  }

  #setBase(now: Instant): void {
    this.#base = now;
    for (const [slot, request] of this.#requests.entries())
      if (request !== undefined) this.#decays[slot] = this.#decay(request.deadline);
  }

  #removePopped(slot: number): Request {
    const request = this.#requests[slot];
    assert(request !== undefined, "FQ2: what is popped was waiting");
    this.remove(slot);
    return request;
  }
}

/** @returns whether it was in */
function leave({ lines, drops, milestones, deadlines }: Queue, slot: number): boolean {
  if (!drops.remove(slot)) return false;
  lines.remove(slot);
  milestones.remove(slot);
  deadlines?.remove(slot);
  return true;
}
