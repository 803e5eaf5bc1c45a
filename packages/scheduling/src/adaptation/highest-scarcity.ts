/**
 * The highest scarcity that any model of a cluster reports. Models that lose nothing themselves give way by it: their
 * batches wait, and take less accelerator time in all, as far as others lose requests for want of accelerators.
 *
 * O(log n) for a report, and for the highest.
 */
import { IndexedHeap } from "@tutti/collections";
import type { Instant } from "@tutti/units";

/** How long a report counts, µs. Whoever lacks accelerators answers grants more often. */
const VALID_FOR = 5_000_000;

export class HighestScarcity {
  readonly #byLevel: IndexedHeap;
  readonly #reportedAt: number[] = [];

  constructor(modelsMax: number) {
    this.#byLevel = new IndexedHeap(modelsMax);
  }

  /** @param level - of the model in this slot: 0 … 255 */
  report(slot: number, level: number, at: Instant): void {
    if (level === 0) this.#byLevel.remove(slot);
    else {
      this.#byLevel.set(slot, -level);
      this.#reportedAt[slot] = at;
    }
  }
  forget(slot: number): void {
    this.#byLevel.remove(slot);
  }

  /** The highest level that was reported lately; 0: none. */
  at(now: Instant): number {
    for (;;) {
      const slot = this.#byLevel.topKey;
      if (slot < 0) return 0;
      if (now <= this.#reportedAt[slot]! + VALID_FOR) return -this.#byLevel.topPriority;
      this.#byLevel.remove(slot);
    }
  }
}
