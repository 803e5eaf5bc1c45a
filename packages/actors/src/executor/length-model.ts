import { LengthCurve, costsOf } from "@tutti/profile";
import type { BatchCostPoint } from "@tutti/protocol";
import { type Instant, type Micros, type ThreadId, before, micros, seconds } from "@tutti/units";

/** Models whose lengths are remembered. */
const MODELS = 4_096;
/** A time in which runs alone should have taken at least half of their share. */
const LATELY = seconds(10);

/**
 * What requests of an accelerator's models take alone, by their lengths (l(1, size)): learnt from runs alone, and from
 * batches whose longest member's length is known. It stands in for runs alone as long as there is no idle time for
 * them: a model that nobody knows yet may keep its accelerators busy just because it is not known which requests are
 * long.
 */
export class LengthModel {
  readonly #curves = new Map<ThreadId, LengthCurve>();

  /** A request ran by itself. @param units - 0: its length is not known */
  ranAlone(thread: ThreadId, { units, alone }: { readonly units: number; readonly alone: Micros }): void {
    if (units > 0) this.#of(thread).note(units, alone);
  }

  /**
   * A batch ran. @param longest - the units of its longest member @param costs - of batches, as they are planned with
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

  /** What a request of such a length takes alone; undefined where nothing is known. */
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
 * Whether rows wait in vain for idle time: the first has for 10 s, and in these less than half of the time that runs
 * alone may take was had.
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
