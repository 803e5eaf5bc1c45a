import { LengthCurve, costsOf } from "@tutti/profile";
import type { BatchCostPoint } from "@tutti/protocol";
import { type Instant, type Micros, type ThreadId, before, micros, seconds } from "@tutti/units";

/** Models whose lengths are remembered. */
const MODELS = 4_096;
/** Period in which isolated runs should have taken at least half of their share. */
const LATELY = seconds(10);

/**
 * Isolated times of requests by their lengths, l(1, size), for the models of an executor. It learns them from isolated
 * runs, and from batches whose longest member's length is known. It stands in for isolated runs as long as there is no
 * idle time: an unknown model may keep its accelerators busy just because it is not known which requests are long.
 */
export class LengthModel {
  readonly #curves = new Map<ThreadId, LengthCurve>();

  /** Learns from an isolated run. @param units - 0: the length is not known */
  ranAlone(thread: ThreadId, { units, alone }: { readonly units: number; readonly alone: Micros }): void {
    if (units > 0) this.#of(thread).note(units, alone);
  }

  /**
   * Learns from a batch. @param longest - the units of its longest member @param costs - the batch costs that plans use
   */
  ranBatch(
    thread: ThreadId,
    batch: { readonly batchSize: number; readonly longest: number; readonly took: Micros },
    costs: readonly BatchCostPoint[],
  ): void {
    const { fixed, slope } = costsOf(costs)(batch.batchSize);
    const alone = (batch.took - fixed) / slope;
    if (batch.longest > 0 && alone > 0) this.#of(thread).note(batch.longest, alone);
  }

  /** Isolated time of a request of that length; undefined if nothing is known. */
  reckoned(thread: ThreadId, units: number): Micros | undefined {
    const alone = units > 0 ? this.#curves.get(thread)?.at(units) : undefined;
    return alone === undefined ? undefined : micros(Math.max(1, Math.round(alone)));
  }

  #of(thread: ThreadId): LengthCurve {
    let curve = this.#curves.get(thread);
    if (curve === undefined) {
      if (this.#curves.size >= MODELS) this.#curves.clear();
      this.#curves.set(thread, (curve = new LengthCurve()));
    }
    return curve;
  }
}

/**
 * Detects rows that wait too long for idle time. The first has waited for 10 s, in which isolated runs got less than
 * half of their share of the time.
 */
export class IdleHunger {
  readonly #share: number;
  #runs: { readonly at: Instant; readonly took: Micros }[] = [];

  constructor(share: number) {
    this.#share = share;
  }

  ran(at: Instant, took: Micros): void {
    this.#runs = [...this.#runs.filter((run) => run.at >= before(at, LATELY)), { at, took }];
  }

  isFelt(at: Instant, firstWaitsSince: Instant | undefined): boolean {
    const since = before(at, LATELY);
    if (firstWaitsSince === undefined || firstWaitsSince > since) return false;
    const had = this.#runs.reduce((sum, run) => sum + (run.at >= since ? run.took : 0), 0);
    return had < 0.5 * this.#share * LATELY;
  }
}
