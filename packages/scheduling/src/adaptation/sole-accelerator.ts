/**
 * Whether a model gets one accelerator only. docs/algorithms.md, A6.
 *
 * Deferral makes batches larger because accelerators take turns: with N of them a request waits for l(b)/N at most, so
 * that (1 + 1/N)·l(b) may be as long as the SLO (A7). With one that is 2·l(b), as without any waiting, and a batch that
 * waits in full beside the idle accelerator is in the way of those that come next. A ModelThread doesn't know how many
 * accelerators there are, nor how many of them others leave to it; its own waits tell.
 *
 *   SOLE-1. A batch that waits gets the accelerator that is free first. So while all grants come from one, each of its
 *           batches that waited shows that no other was free any earlier.
 *   SOLE-2. One grant of another accelerator is proof of the opposite.
 */
import type { GpuId } from "@tutti/units";

/** Batches that waited for the same accelerator after which there counts to be no other. */
const WAITS = 32;

export class SoleAccelerator {
  #gpu = -1;
  #waits = 0;

  get isSole(): boolean {
    return this.#waits >= WAITS;
  }

  /** Notes a granted batch. @param hasWaited - whether no accelerator was free at the start that it wanted */
  note(gpu: GpuId, hasWaited: boolean): void {
    if (gpu !== this.#gpu) {
      this.#gpu = gpu;
      this.#waits = 0;
    }
    if (hasWaited && this.#waits < WAITS) this.#waits++;
  }
}
