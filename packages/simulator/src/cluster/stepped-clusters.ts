/**
 * Several schedulers beside one another, each with accelerators of its own, and no knowledge of the others.
 *
 *   SC2. Events of all of them are reported in the order of time.
 */
import { ALWAYS, type Instant, NEVER } from "@tutti/units";
import {
  type SimBatch,
  type SimCluster,
  type SimListener,
  type SimRequest,
  type SteppedCluster,
  isStepped,
} from "./simulated-cluster.ts";

export class SteppedClusters implements SteppedCluster {
  readonly #route: (request: SimRequest) => number;
  readonly #clusters: readonly SteppedCluster[];
  /** Time of the next event of each cluster. */
  readonly #next: Float64Array;
  #now: Instant = ALWAYS;

  /**
   * @param route - to a cluster's index; for `withdraw` it must say the same of a request again
   * @throws Error for a policy that can't be stopped between two events
   */
  constructor(clusters: readonly SimCluster[], route: (request: SimRequest) => number) {
    if (!clusters.every(isStepped)) throw new Error("a policy that can't be stopped between two events");
    this.#clusters = clusters;
    this.#route = route;
    this.#next = new Float64Array(clusters.length).fill(NEVER);
  }

  arrive(request: SimRequest): void {
    if (request.arrivedAt > this.#now) this.#runWhile((next) => next < request.arrivedAt);
    if (request.arrivedAt > this.#now) this.#now = request.arrivedAt;
    const own = this.#route(request);
    this.#clusters[own]!.arrive(request);
    this.#next[own] = this.#clusters[own]!.nextAt();
  }

  runUntilIdle(): void {
    this.#runWhile((next) => next < NEVER);
  }
  nextAt(): Instant {
    return this.#next[this.#first()]! as Instant;
  }
  runUntil(at: Instant): void {
    this.#runWhile((next) => next <= at);
    if (at > this.#now) this.#now = at;
  }
  withdraw(request: SimRequest, at: Instant): boolean {
    const own = this.#route(request);
    const isGone = this.#clusters[own]!.withdraw?.(request, at) === true;
    this.#next[own] = this.#clusters[own]!.nextAt();
    return isGone;
  }

  #first(): number {
    let first = 0;
    for (let i = 1; i < this.#next.length; i++) if (this.#next[i]! < this.#next[first]!) first = i;
    return first;
  }
  /** Runs sub-clusters in the order of their events (SC2). */
  #runWhile(isDue: (next: number) => boolean): void {
    for (let first = this.#first(); isDue(this.#next[first]!); first = this.#first()) {
      if (this.#next[first]! > this.#now) this.#now = this.#next[first]! as Instant;
      this.#clusters[first]!.runUntil(this.#now);
      this.#next[first] = this.#clusters[first]!.nextAt();
    }
  }
}

/** Renumbers accelerators and batches of one of several clusters, so that no two share a number. */
export function renumbered(listener: SimListener, firstGpu: number, count: { batches: number }): SimListener {
  const told = new Map<number, SimBatch>();
  return {
    dispatched: (batch, at) => {
      const own = { ...batch, id: ++count.batches, gpu: firstGpu + batch.gpu };
      told.set(batch.id, own);
      listener.dispatched?.(own, at);
    },
    refused: (request, cause, at) => listener.refused(request, cause, at),
    finished: (batch, begin, end, completed) => {
      const own = told.get(batch.id)!;
      told.delete(batch.id);
      listener.finished(own, begin, end, completed);
    },
  };
}
