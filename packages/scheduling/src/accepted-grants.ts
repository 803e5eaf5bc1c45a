import type { GpuId, Instant } from "@tutti/units";
import type { Grant } from "./messages.ts";

/** Accelerators. The oldest is forgotten beyond: a repeat of its grant then costs a batch that the executor refuses. */
const REMEMBERED = 4_096;

/**
 * The newest grant that a model has accepted of each accelerator: none is accepted twice, nor after a newer one of its
 * accelerator (M3 of model-thread.ts). It counts while it is valid, so that one with a false number, far ahead, stops
 * its accelerator for no longer. An older grant that then slips through is refused by the executor's fence (T5).
 */
export class AcceptedGrants {
  readonly #newest = new Map<GpuId, { epoch: number; grantSeq: number; validUntil: Instant }>();

  /** @returns false: a grant of the accelerator that is no older, of the same epoch, was accepted and is valid still */
  accept(at: Instant, { gpu, epoch, grantSeq, validUntil }: AcceptedGrant): boolean {
    const newest = this.#newest.get(gpu);
    if (newest === undefined) {
      if (this.#newest.size >= REMEMBERED) this.#newest.delete(this.#newest.keys().next().value!);
      this.#newest.set(gpu, { epoch, grantSeq, validUntil });
      return true;
    }
    // Sequences start again with the epoch.
    if (epoch === newest.epoch && grantSeq <= newest.grantSeq && at <= newest.validUntil) return false;
    newest.epoch = epoch;
    newest.grantSeq = grantSeq;
    newest.validUntil = validUntil;
    return true;
  }

  get size(): number {
    return this.#newest.size;
  }
}

type AcceptedGrant = Pick<Grant, "gpu" | "epoch" | "grantSeq" | "validUntil">;
