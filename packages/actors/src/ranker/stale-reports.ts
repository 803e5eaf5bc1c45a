import { type GpuId, type Instant, after, seconds } from "@tutti/units";

/** Reports under way arrive long before this. */
const STALE_FOR = seconds(1);

/**
 * Accelerators whose reports name an older grant than we expect. Such a report is usually just late. If an accelerator
 * repeats it for long, its batch was lost or our belief about the grant is wrong, and the accelerator's own report
 * counts.
 */
export class StaleReports {
  readonly #since = new Map<GpuId, Instant>();

  /** @returns whether the accelerator has repeated it for long */
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
