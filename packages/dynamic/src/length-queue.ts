/**
 * Pending requests of one dynamic model in deadline order, each with the level of its class, and the choice of the
 * batch that is worth most per unit of time.
 *
 *   LQ1. Every request is in the queue once, from `add` until it leaves by `take`, `remove` or `dropUntil`.
 *   LQ2. A batch of (level, size, need) has the first requests of levels up to that level whose slack is at least the
 *        need: earliest deadlines first, and no longer requests.
 *   LQ3. Of all (level, size, need) the choice is the one with the greatest Σ p: the worth of its members' ending in
 *        time, per µs of the accelerator (BatchLevels.score).
 */
import { assert } from "@tutti/units";
import type { BatchLevels } from "./batch-levels.ts";
import type { CostStep } from "./feasible-queues.ts";

export interface Timed {
  readonly deadline: number;
  /** Costs of a late answer, the first at the deadline (B8). Default: a cost of 1 for ending after the deadline. */
  readonly steps?: readonly CostStep[] | undefined;
}

/** Result of a choice. The object is reused from choice to choice. */
export interface LengthChoice {
  /** 0: nothing can run. */
  size: number;
  level: number;
  /** Index of the batch size in the levels' sizes. */
  place: number;
  /** Earliest deadline among its members. */
  deadline: number;
  /** Time that the batch must have until that deadline, µs. */
  needed: number;
  /** Time that the batch almost certainly (0.9) does not exceed, µs. */
  certain: number;
}

const DEAD = 255;
/** Most requests scanned for one batch. A level whose members are rarer than that is left out. */
const SCAN_MAX = 256;

export class LengthQueue<Request extends Timed> {
  /** Factor on all times: runs may take longer, or less, than the distributions say (RunScale). */
  scale = 1;
  readonly choice: LengthChoice = { size: 0, level: 0, place: 0, deadline: 0, needed: 0, certain: 0 };
  #levels: BatchLevels;
  #certain: BatchLevels;
  #requests: (Request | undefined)[] = [];
  #deadlines = new Float64Array(64);
  /** Level of each place in deadline order; DEAD: the request has left. */
  #level = new Uint8Array(64);
  #head = 0;
  #tail = 0;
  #size = 0;
  /** Number of requests with steps, and the most that ending in time saves of any since there was none. */
  #stepped = 0;
  #worthMost = 1;
  /** Most that one request needs alone, of any level, µs: levels are in order of the mean, not of this. */
  #longest = 0;
  /** Number of pending requests by level. */
  #waiting: Int32Array;
  /** Places of the chosen batch, and of the batch that is being evaluated. */
  #chosen = new Int32Array(0);
  #weighed = new Int32Array(0);

  /**
   * @param likely - latencies of batches that are as likely as not to end in time
   * @param certain - latencies of batches that almost certainly end in time. Where lengths vary within a class, either
   *   may be worth more
   */
  constructor(likely: BatchLevels, certain: BatchLevels) {
    this.#levels = likely;
    this.#certain = certain;
    this.#waiting = new Int32Array(0);
    this.#refit();
  }

  get size(): number {
    return this.#size;
  }

  add(request: Request, oneClass: number): void {
    if (this.#tail === this.#deadlines.length) this.#makeRoom();
    let at = this.#tail++;
    for (; at > this.#head && this.#deadlines[at - 1]! > request.deadline; at--) this.#move(at - 1, at);
    this.#requests[at] = request;
    this.#deadlines[at] = request.deadline;
    const level = this.#levels.levelOf(oneClass);
    this.#level[at] = level;
    this.#waiting[level]!++;
    this.#size++;
    if (request.steps !== undefined) {
      this.#stepped++;
      this.#worthMost = Math.max(this.#worthMost, request.steps.at(-1)!.cost);
    }
    this.choice.size = 0; // places moved
  }

  remove(request: Request): boolean {
    for (let at = this.#firstFrom(request.deadline); at < this.#tail; at++) {
      if (this.#deadlines[at] !== request.deadline) return false;
      if (this.#requests[at] === request) return (this.#leave(at), true);
    }
    return false;
  }

  /** O(n). */
  removeWhere(matches: (request: Request) => boolean): void {
    for (let at = this.#head; at < this.#tail; at++)
      if (this.#level[at] !== DEAD && matches(this.#requests[at]!)) this.#leave(at);
  }

  /** Drops the requests that would most likely be late even in a batch of one. */
  dropUntil(start: number, onDropped: (request: Request, needed: number) => void): void {
    const longest = this.scale * this.#longest;
    for (let at = this.#head; at < this.#tail && this.#deadlines[at]! < start + longest; at++) {
      const level = this.#level[at]!;
      if (level === DEAD) continue;
      const needed = this.scale * this.#levels.needed(level, 0);
      if (start + needed <= this.#deadlines[at]!) continue;
      const request = this.#requests[at]!;
      this.#leave(at);
      onDropped(request, needed);
    }
  }

  /**
   * Chooses a batch (LQ3) that starts at `base + perItem · size`, or when the accelerator is free if that is later.
   *
   * @param free - when the accelerator is free; −Infinity: at any time
   */
  choose(base: number, perItem: number, free: number): LengthChoice {
    const { choice } = this;
    choice.size = 0;
    let best = 0;
    let waiting = 0;
    for (let level = 0; level < this.#levels.classes; level++) {
      if (this.#waiting[level] === 0) continue; // a lower level has the same members and is faster
      waiting += this.#waiting[level]!;
      for (let place = 0; place < this.#levels.sizes.length; place++) {
        const size = this.#levels.sizes[place]!;
        if (size > waiting) break;
        // A score is at most 1/E[L] for a cost of 1, so this batch can't beat the best one.
        if (size * this.#worthMost <= best * this.#levels.expected(level, place)) continue;
        const start = Math.max(base + perItem * size, free);
        const likely = this.scale * this.#levels.needed(level, place);
        const fromLikely = this.#weigh(start, level, place, likely, best);
        best = Math.max(best, fromLikely);
        const needed = this.scale * this.#certain.needed(level, place);
        if (fromLikely >= 0 && needed > likely) best = Math.max(best, this.#weigh(start, level, place, needed, best));
        // Too few for this size, and for larger ones. At place 0 go on: only larger batches follow the paper's form,
        // which may predict two requests to be faster than one alone.
        if (fromLikely < 0 && place > 0) break;
      }
    }
    return choice;
  }

  /** Takes the chosen requests out, in deadline order. */
  take(): Request[] {
    const { size } = this.choice;
    const taken: Request[] = [];
    for (let i = 0; i < size; i++) {
      taken.push(this.#requests[this.#chosen[i]!]!);
      this.#leave(this.#chosen[i]!);
    }
    return taken;
  }

  /** Replaces the distributions; the classes may change with them. */
  refresh(likely: BatchLevels, certain: BatchLevels, classOf: (request: Request) => number): void {
    this.#levels = likely;
    this.#certain = certain;
    this.#refit();
    for (let at = this.#head; at < this.#tail; at++) {
      if (this.#level[at] === DEAD) continue;
      const oneClass = classOf(this.#requests[at]!);
      const level = likely.levelOf(oneClass);
      this.#level[at] = level;
      this.#waiting[level]!++;
    }
  }

  /** Score of the batch, which becomes the choice if it is more than `best`; −1 where too few requests fit. */
  #weigh(start: number, level: number, place: number, needed: number, best: number): number {
    const size = this.#levels.sizes[place]!;
    const from = this.#firstFrom(start + needed);
    const until = Math.min(this.#tail, from + SCAN_MAX);
    let count = 0;
    let worth = 0;
    for (let at = from; at < until && count < size; at++) {
      if (this.#level[at]! > level) continue;
      worth +=
        this.#stepped === 0
          ? this.#levels.score(level, place, (this.#deadlines[at]! - start) / this.scale)
          : this.#worth(at, level, place, start);
      this.#weighed[count++] = at;
    }
    if (count < size) return -1;
    if (worth <= best) return worth;
    const { choice } = this;
    choice.size = size;
    choice.level = level;
    choice.place = place;
    choice.deadline = this.#deadlines[this.#weighed[0]!]!;
    choice.needed = needed;
    choice.certain = this.scale * this.#certain.needed(level, place);
    [this.#chosen, this.#weighed] = [this.#weighed, this.#chosen];
    return worth;
  }

  /** Score of a request that may have steps: the sum of the scores of its steps (B8). */
  #worth(at: number, level: number, place: number, start: number): number {
    const { steps } = this.#requests[at]!;
    const scoreOf = (deadline: number): number => this.#levels.score(level, place, (deadline - start) / this.scale);
    if (steps === undefined) return scoreOf(this.#deadlines[at]!);
    let [worth, before] = [0, 0];
    for (const { deadline, cost } of steps) {
      worth += (cost - before) * scoreOf(deadline);
      before = cost;
    }
    return worth;
  }

  /** First place whose deadline is not before the given one. */
  #firstFrom(deadline: number): number {
    let low = this.#head;
    let high = this.#tail;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#deadlines[middle]! < deadline) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #leave(at: number): void {
    assert(this.#level[at] !== DEAD, "LQ1: it was there");
    this.#waiting[this.#level[at]!]!--;
    this.#level[at] = DEAD;
    if (this.#requests[at]!.steps !== undefined && --this.#stepped === 0) this.#worthMost = 1;
    this.#requests[at] = undefined;
    this.#size--;
    while (this.#head < this.#tail && this.#level[this.#head] === DEAD) this.#head++;
    if (this.#head === this.#tail) this.#head = this.#tail = 0;
  }

  /** Makes room at the end: removes the dead places, and doubles the arrays if they are more than half full. */
  #makeRoom(): void {
    const room = this.#size * 2 > this.#deadlines.length ? 2 * this.#deadlines.length : this.#deadlines.length;
    const [deadlines, level] = [new Float64Array(room), new Uint8Array(room)];
    let kept = 0;
    for (let at = this.#head; at < this.#tail; at++) {
      if (this.#level[at] === DEAD) continue;
      deadlines[kept] = this.#deadlines[at]!;
      level[kept] = this.#level[at]!;
      this.#requests[kept++] = this.#requests[at];
    }
    this.#requests.length = kept;
    this.#deadlines = deadlines;
    this.#level = level;
    this.#head = 0;
    this.#tail = kept;
  }

  #move(from: number, to: number): void {
    this.#requests[to] = this.#requests[from];
    this.#deadlines[to] = this.#deadlines[from]!;
    this.#level[to] = this.#level[from]!;
  }

  #refit(): void {
    assert(this.#levels.classes < DEAD, `${this.#levels.classes} classes`);
    const most = this.#levels.sizes.at(-1)!;
    this.#longest = 0;
    for (let level = 0; level < this.#levels.classes; level++)
      this.#longest = Math.max(this.#longest, this.#levels.needed(level, 0));
    this.#waiting = new Int32Array(this.#levels.classes);
    this.#chosen = new Int32Array(most);
    this.#weighed = new Int32Array(most);
    this.choice.size = 0;
  }
}
