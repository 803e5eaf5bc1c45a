import type { GpuId } from "@tutti/units";
import type { Grant } from "./messages.ts";

/** Accelerators. The oldest is forgotten beyond: a repeat of its grant then costs a batch that the executor refuses. */
const REMEMBERED = 4_096;

/**
 * The newest grant that a model has accepted of each accelerator: none is accepted twice, nor after a newer one of its
 * accelerator (M3 of model-thread.ts). It saves round trips only: the executor's fence refuses what slips through (T5).
 */
export class AcceptedGrants {
  readonly #newest = new Map<GpuId, { epoch: number; grantSeq: number }>();

  /** @returns false: the grant is no newer than the last one accepted of its accelerator in its epoch */
  accept({ gpu, epoch, grantSeq }: Pick<Grant, "gpu" | "epoch" | "grantSeq">): boolean {
    const newest = this.#newest.get(gpu);
    if (newest === undefined) {
      if (this.#newest.size >= REMEMBERED) this.#newest.delete(this.#newest.keys().next().value!);
      this.#newest.set(gpu, { epoch, grantSeq });
      return true;
    }
    // Sequences start again with the epoch.
    if (epoch === newest.epoch && grantSeq <= newest.grantSeq) return false;
    newest.epoch = epoch;
    newest.grantSeq = grantSeq;
    return true;
  }

  get size(): number {
    return this.#newest.size;
  }
}
