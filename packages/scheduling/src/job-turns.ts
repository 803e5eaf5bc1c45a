/**
 * Models with jobs that wait for an accelerator, and the moment to look for one again. docs/algorithms.md, A12.
 *
 *   JOBS-1. Models take turns: the one whose turn is longest ago is next.
 *   JOBS-2. The next look is when an accelerator is free; where requests need the free one, LOOK_AFTER later.
 */
import { IndexedHeap } from "@tutti/collections";
import { ALWAYS, NEVER, type Instant } from "@tutti/units";

/** Time after which jobs are looked at again whose accelerator requests needed, µs. */
const LOOK_AFTER = 1_000;

export class JobTurns {
  /** Slots by the number of their last turn. */
  readonly #waiting: IndexedHeap;
  /** By slot: the number of its last turn. */
  readonly #turns: number[] = [];
  #turn = 0;
  #lookAt: Instant = ALWAYS;

  constructor(slotsMax: number) {
    this.#waiting = new IndexedHeap(slotsMax);
  }

  /** When to look next; `NEVER`: no job waits. */
  get lookAt(): Instant {
    return this.#waiting.size === 0 ? NEVER : this.#lookAt;
  }
  /** The slot whose turn it is; −1: none waits. */
  get next(): number {
    return this.#waiting.topKey;
  }

  add(slot: number): void {
    if (this.#waiting.has(slot)) return;
    this.#waiting.set(slot, this.#turns[slot] ?? 0);
    this.lookSoon();
  }
  remove(slot: number): void {
    if (this.#waiting.remove(slot)) this.#turns[slot] = ++this.#turn;
  }
  /** Its turn is over: requests need the accelerator. */
  refuse(slot: number, at: Instant): void {
    this.#turns[slot] = ++this.#turn;
    this.#waiting.set(slot, this.#turn);
    this.#lookAt = (at + LOOK_AFTER) as Instant;
  }
  /** @param at - moment at which an accelerator will be free; `NEVER`: unknown */
  waitUntil(at: Instant): void {
    this.#lookAt = at;
  }
  /** An accelerator may be free earlier than was known. */
  lookSoon(): void {
    this.#lookAt = ALWAYS;
  }
}
