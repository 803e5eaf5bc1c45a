/**
 * DeadlineRun: the pending requests of one queue in order of (deadline, id). Unlike `DeadlineQueue` of
 * @tutti/collections it gives access to any place, which the search for the largest feasible batch needs
 * (shepherd-like), and it needs no identities.
 *
 * Requests of one SLO come in deadline order, so nearly all of them are appended in O(1). A request that comes before
 * the end (another SLO, a preempted batch) is inserted by O(n) moves. The caller bounds the queue: see WAITING_MAX.
 */
import type { SimRequest } from "../cluster/simulated-cluster.ts";

export class DeadlineRun {
  #items: SimRequest[] = [];
  /** Place of the first request; those before it have left. */
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }
  /** 0 is the request of least (deadline, id). */
  at(index: number): SimRequest {
    return this.#items[this.#head + index]!;
  }

  push(request: SimRequest): void {
    const items = this.#items;
    let place = items.length;
    while (place > this.#head && precedes(request, items[place - 1]!)) place--;
    if (place === items.length) items.push(request);
    else items.splice(place, 0, request);
  }

  shift(): SimRequest {
    const first = this.#items[this.#head++]!;
    this.#reclaim();
    return first;
  }

  /** Takes `count` requests out, from the place `from` on. */
  take(from: number, count: number): SimRequest[] {
    if (from > 0) return this.#items.splice(this.#head + from, count);
    const taken = this.#items.slice(this.#head, this.#head + count);
    this.#head += count;
    this.#reclaim();
    return taken;
  }

  /** Removes a request that is in the queue. */
  remove(request: SimRequest): void {
    let place = this.#head;
    while (this.#items[place] !== request) place++;
    if (place === this.#head) this.shift();
    else this.#items.splice(place, 1);
  }

  /** Moves the remaining requests to the front once at least half have left: amortised O(1) a request. */
  #reclaim(): void {
    if (this.#head < 64 || this.#head * 2 < this.#items.length) return;
    this.#items = this.#items.slice(this.#head);
    this.#head = 0;
  }
}

const precedes = (a: SimRequest, b: SimRequest): boolean =>
  a.deadline !== b.deadline ? a.deadline < b.deadline : a.id < b.id;
