import { type GpuId, type Instant, after, seconds } from "@tutti/units";

/** A report that is on its way comes long before. */
const STALE_FOR = seconds(1);

/**
 * Accelerators that we expect to have had more grants than they say. A report of an older grant is late, as a rule;
 * where an accelerator says so again and again, its batch was lost, or what we were told about the grant is not true,
 * and what it says itself counts.
 */
export class StaleReports {
  readonly #since = new Map<GpuId, Instant>();

  /** @returns whether the accelerator has said so for long */
  isLasting(gpu: GpuId, isStale: boolean, now: Instant): boolean {
    if (!isStale) {
      this.#since.delete(gpu);
      return false;
    }
    const since = this.#since.get(gpu) ?? now;
    this.#since.set(gpu, since);
    if (now < after(since, STALE_FOR)) return false;
    this.#since.delete(gpu);
    return true;
  }
}
