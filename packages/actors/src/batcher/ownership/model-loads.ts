import { type Instant, between, seconds } from "@tutti/units";
import { MODEL_LOAD } from "./balance.ts";
import type { ThreadTable } from "../thread-table.ts";

/** Weight of the newest second. A burst of one second moves nothing, and a lasting change shows within some seconds. */
const NEWEST_SHARE = 0.2;

interface Measured {
  arrivals: number;
  /** Undefined until there are two readings. */
  perSecond: number | undefined;
}

/** Measures the requests a second of each model of this batcher. */
export class ModelLoads {
  readonly #measured = new Map<number, Measured>();
  #readAt: Instant | undefined;
  #total = 0;

  /** Load of all models here as of the last reading, for heartbeats. */
  get total(): number {
    return this.#total;
  }

  /** Load of one model as of the last reading. */
  of(modelNumber: number): number {
    return MODEL_LOAD + (this.#measured.get(modelNumber)?.perSecond ?? 0);
  }

  /** Reads the arrival counters of all threads; runs once a second. */
  read(threads: ThreadTable, now: Instant): void {
    const elapsed = this.#readAt === undefined ? 0 : between(this.#readAt, now) / seconds(1);
    this.#readAt = now;
    const arrivals = new Map<number, number>();
    for (const { spec, isForJobs, arrivals: count } of threads.values())
      if (!isForJobs) arrivals.set(spec.number, (arrivals.get(spec.number) ?? 0) + count);
    for (const number of this.#measured.keys()) if (!arrivals.has(number)) this.#measured.delete(number);
    this.#total = 0;
    for (const [number, count] of arrivals) {
      const known = this.#measured.get(number);
      if (known === undefined) this.#measured.set(number, { arrivals: count, perSecond: undefined });
      else if (elapsed > 0) measure(known, count, elapsed);
      this.#total += MODEL_LOAD + (known?.perSecond ?? 0);
    }
  }
}

function measure(known: Measured, arrivals: number, elapsed: number): void {
  // Restarted threads count from zero.
  const fresh = Math.max(0, arrivals - known.arrivals) / elapsed;
  known.perSecond = known.perSecond === undefined ? fresh : known.perSecond + NEWEST_SHARE * (fresh - known.perSecond);
  known.arrivals = arrivals;
}
