import { LatencyTable } from "@tutti/profile";
import type { ModelStatus } from "@tutti/protocol";
import { type FastestType, NONE_UNFIT, type UnfitTypes } from "@tutti/scheduling";
import { type ThreadId, micros } from "@tutti/units";
import { fnv1a } from "@tutti/wire";

/** Types that can't serve the model. One that only isn't there may come back, and serves at once. */
export function unfitOf(status: ModelStatus | undefined): UnfitTypes {
  const unfit = status?.byType?.filter((one) => one.unfit === true) ?? [];
  return unfit.length === 0 ? NONE_UNFIT : unfit.map(({ type }) => ({ type: fnv1a(type) }));
}

/**
 * Latencies of threads on the accelerator that is granted, where the executor types that serve a model are unlike. The
 * pool's profile is the slowest of them as they run now, and a type's own is as much shorter as it runs faster: its own
 * runs, unless the pool is planned with means, or the profiler's release publishes no types' runs.
 */
export class OwnProfiles {
  readonly #byThread = new Map<ThreadId, ReadonlyMap<string, LatencyTable>>();

  /** @param pool - what the thread plans offers with */
  note(thread: ThreadId, bucket: number, status: ModelStatus | undefined, pool: LatencyTable): void {
    this.#byThread.delete(thread);
    const serving = status?.byType?.filter(({ type }) => status.executorTypes.includes(type)) ?? [];
    if (serving.length < 2) return;
    const { batchSizeMax } = pool;
    const measured = serving.flatMap(({ type, profiles, live = profiles }) => {
      const points = live[bucket] ?? [];
      const table = points.length === 0 ? undefined : LatencyTable.fromPoints(points, { batchSizeMax });
      return table === undefined || table.batchSizeMax < batchSizeMax ? [] : [{ type, table }];
    });
    const slowest = (batchSize: number): number =>
      Math.max(...measured.map(({ table }): number => table.latency(batchSize)));
    const own = measured.map(({ type, table }): [string, LatencyTable] => {
      const points = pool.toPoints().map(({ batchSize, latency }) => {
        const shorter = (latency * table.latency(batchSize)) / slowest(batchSize);
        return { batchSize, latency: micros(Math.max(1, Math.ceil(shorter))) };
      });
      return [type, LatencyTable.fromPoints(points)];
    });
    this.#byThread.set(thread, new Map(own));
  }
  forget(thread: ThreadId): void {
    this.#byThread.delete(thread);
  }

  /**
   * The type that takes least for one request, and as unfit all that take longer for any batch: none of those may be
   * granted what is planned with it. Undefined: no type takes longer.
   */
  fastest(thread: ThreadId, status: ModelStatus | undefined): FastestType | undefined {
    const own = this.#byThread.get(thread);
    if (own === undefined) return undefined;
    const profile = [...own.values()].reduce((least, table) => (table.latency(1) < least.latency(1) ? table : least));
    const isAsFast = (type: string): boolean => {
      const table = own.get(type);
      return table?.byBatchSize.every((latency, b) => b === 0 || latency <= profile.byBatchSize[b]!) === true;
    };
    if ([...own.keys()].every(isAsFast)) return undefined;
    const others = status?.byType?.filter(({ type }) => !isAsFast(type)) ?? [];
    return { profile, unfit: others.map(({ type }) => ({ type: fnv1a(type) })) };
  }

  /** Undefined: as planned. */
  of(thread: ThreadId, type: () => string | undefined): LatencyTable | undefined {
    const own = this.#byThread.get(thread);
    if (own === undefined) return undefined;
    const known = type();
    return known === undefined ? undefined : own.get(known);
  }
}
