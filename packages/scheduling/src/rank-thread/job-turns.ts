/**
 * Models with jobs that wait for an accelerator, and the moment to look for one again. docs/algorithms.md, A13.
 *
 *   JOBS-1. Models take turns: the one whose turn is longest ago is next. A look tries each once.
 *   JOBS-2. The next look is the earliest that any of them asks for, or at once when an accelerator may be free.
 */
import { IndexedHeap } from "@tutti/collections";
import { ALWAYS, NEVER, type Instant } from "@tutti/units";

export class JobTurns {
  /** Slots by the number of their last turn. */
  readonly #waiting: IndexedHeap;
  /** By slot: the number of its last turn, in which it was granted an accelerator. */
  readonly #turns: number[] = [];
  /** Slots that the present look has passed over. */
  readonly #passed: number[] = [];
  #turn = 0;
  /**
   * When to look next; `NEVER`: no job waits, or for nothing that is known. A plain field, since a ranker without jobs
   * reads it after each event.
   */
  lookAt: Instant = NEVER;

  constructor(slotsMax: number) {
    this.#waiting = new IndexedHeap(slotsMax);
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
    if (!this.#waiting.remove(slot)) return;
    this.#turns[slot] = ++this.#turn;
    if (this.#waiting.size === 0) this.lookAt = NEVER;
  }
  /** Passes over a slot for the rest of a look. @param again - when to look for an accelerator for it again */
  pass(slot: number, again: Instant): void {
    this.#waiting.remove(slot);
    this.#passed.push(slot);
    if (this.lookAt === ALWAYS || again < this.lookAt) this.lookAt = again;
  }
  /** A look ends: those that were passed over keep their turns. */
  endLook(): void {
    for (const slot of this.#passed) this.#waiting.set(slot, this.#turns[slot] ?? 0);
    this.#passed.length = 0;
  }
  /**
   * An accelerator may be free earlier than was known; or a look begins, and what it finds says when the next one is.
   */
  lookSoon(): void {
    if (this.#waiting.size > 0) this.lookAt = ALWAYS;
  }
}
