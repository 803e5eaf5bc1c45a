import type { GpuId, Instant } from "@tutti/units";
import type { Grant } from "../messages.ts";

/**
 * Entries from which on those that are over are swept out, whenever there are twice as many as after the last sweep.
 */
const SWEPT_FROM = 64;

/**
 * The newest grant that a model has accepted of each accelerator: none is accepted twice, nor after a newer one of its
 * accelerator (M3 of model-thread.ts). It counts until it and those accepted before it are over, so that one with a
 * false number, far ahead, stops its accelerator for no longer. Only what is valid can be accepted, so nothing is lost
 * by forgetting the others; entries are at most twice the accelerators whose grants are valid, or SWEPT_FROM.
 */
export class AcceptedGrants {
  readonly #newest = new Map<GpuId, { epoch: number; grantSeq: number; until: Instant }>();
  #sweptAt = SWEPT_FROM;

  /** @returns false: a grant of the accelerator that is no older, of the same epoch, was accepted and counts still */
  accept(at: Instant, { gpu, epoch, grantSeq, validUntil }: AcceptedGrant): boolean {
    const newest = this.#newest.get(gpu);
    if (newest === undefined) {
      if (this.#newest.size >= this.#sweptAt) this.#sweep(at);
      this.#newest.set(gpu, { epoch, grantSeq, until: validUntil });
      return true;
    }
    const counts = epoch === newest.epoch && at <= newest.until; // Sequences start again with the epoch.
    if (counts && grantSeq <= newest.grantSeq) return false;
    newest.epoch = epoch;
    newest.grantSeq = grantSeq;
    // A ranker whose d_ctrl has fallen gives a newer grant an earlier end than an older one, which may still come.
    if (!counts || validUntil > newest.until) newest.until = validUntil;
    return true;
  }

  /** Whether the accelerator's grant before this one came here too. To be asked before this one is accepted. */
  hadOneBefore({ gpu, epoch, grantSeq }: AcceptedGrant): boolean {
    const newest = this.#newest.get(gpu);
    return newest !== undefined && newest.epoch === epoch && newest.grantSeq === grantSeq - 1;
  }

  get size(): number {
    return this.#newest.size;
  }

  #sweep(at: Instant): void {
    for (const [gpu, { until }] of this.#newest) if (until < at) this.#newest.delete(gpu);
    this.#sweptAt = Math.max(SWEPT_FROM, 2 * this.#newest.size);
  }
}

type AcceptedGrant = Pick<Grant, "gpu" | "epoch" | "grantSeq" | "validUntil">;
