import { ALONE_TOLD_MAX, AloneMeasured } from "@tutti/protocol";
import { type Micros, type ThreadId, micros } from "@tutti/units";
import type { ActorRuntime } from "@tutti/actors/runtime";

export type Sample = AloneMeasured["samples"][number];
type Batch = AloneMeasured["batches"][number];
type Pair = NonNullable<AloneMeasured["pairs"]>[number];

/** Measurements of isolated runs until the next report to the profiler. Bounded per thread (T7). */
export class IsolatedReports {
  readonly #waiting = new Map<ThreadId, { samples: Sample[]; batches: Batch[]; pairs: Pair[] }>();

  sample(thread: ThreadId, { app, units, alone }: Sample): void {
    const { samples } = this.#of(thread);
    if (samples.length < ALONE_TOLD_MAX) samples.push({ app, units, alone: positive(alone) });
  }

  /** @param batch - `alone`: the isolated time of its longest member */
  batch(thread: ThreadId, { batchSize, took, alone }: Batch): void {
    const { batches } = this.#of(thread);
    if (batches.length < ALONE_TOLD_MAX) batches.push({ batchSize, took: positive(took), alone: positive(alone) });
  }

  /** Two isolated runs of one request. */
  pair(thread: ThreadId, once: Micros, again: Micros): void {
    const { pairs } = this.#of(thread);
    if (pairs.length < ALONE_TOLD_MAX) pairs.push({ once, again: positive(again) });
  }

  /** Sends all of it. It is not urgent, so measurements travel together. */
  send(runtime: ActorRuntime): void {
    for (const [thread, measured] of this.#waiting)
      runtime.broadcast("profiler", AloneMeasured, { thread, ...measured });
    this.#waiting.clear();
  }

  #of(thread: ThreadId): { samples: Sample[]; batches: Batch[]; pairs: Pair[] } {
    let waiting = this.#waiting.get(thread);
    if (waiting === undefined) this.#waiting.set(thread, (waiting = { samples: [], batches: [], pairs: [] }));
    return waiting;
  }
}

/** Messages carry whole microseconds above zero. */
const positive = (time: Micros): Micros => micros(Math.max(1, time));
