import {
  BUCKET,
  PLACEMENT_KEY,
  type Placement,
  type PlanReport,
  REPORT_KEY,
  isPlacement,
  isPlanReport,
} from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import { readStored } from "@tutti/wire";

/** Accelerators of one process. */
export type Gpus = readonly number[];

/**
 * Whether other executors can serve everything that an executor serves, or is to serve. Each of its sub-clusters with
 * models needs another executor that is placed there and already accepts grants of that sub-cluster's leader. Without a
 * plan all executors belong to one sub-cluster.
 *
 * @param others - accelerators of the other running executors
 */
export function isSpareIn(
  { placement, report }: { readonly placement: Placement | undefined; readonly report: PlanReport | undefined },
  gpus: Gpus,
  others: readonly Gpus[],
): boolean {
  if (placement === undefined) return others.length > 0;
  const placed = new Map<number, string>(placement.gpus.map(({ gpu, subCluster }) => [gpu, subCluster]));
  const obeyed = new Map<number, string>(
    report?.executors.flatMap((executor) => executor.gpus.map((gpu) => [gpu, executor.subCluster] as const)),
  );
  const places = ([gpu = -1]: Gpus): (string | undefined)[] => [placed.get(gpu), obeyed.get(gpu) ?? placed.get(gpu)];
  const served = new Set<string | undefined>([
    ...placement.models.flatMap(({ subCluster, next }) => [subCluster, next]),
    ...(placement.parked ?? []).map(({ next }) => next),
  ]);
  return places(gpus).every(
    (place) =>
      place === undefined || !served.has(place) || others.some((other) => places(other).every((one) => one === place)),
  );
}

/** Mirrors the stored placement and the planner's report. Unreadable values change nothing. */
export class PlanWatch {
  #placement: Placement | undefined;
  #report: PlanReport | undefined;
  readonly #onReport: (report: PlanReport) => void;
  readonly #watches: readonly { stop(): void }[];

  /** @param onReport - called with every new report of the planner */
  constructor(store: Store, onReport: (report: PlanReport) => void = () => undefined) {
    this.#onReport = onReport;
    this.#watches = [PLACEMENT_KEY, REPORT_KEY].map((watched) =>
      store.watch(BUCKET.plan, watched, {
        onEntry: ({ key, value }) => this.#onEntry(key, value),
        onDelete: () => undefined,
        onReady: () => undefined,
        onFailure: () => undefined, // it is retried, and the last known values apply meanwhile
      }),
    );
  }

  isSpare(gpus: Gpus, others: readonly Gpus[]): boolean {
    return isSpareIn({ placement: this.#placement, report: this.#report }, gpus, others);
  }

  stop(): void {
    for (const watch of this.#watches) watch.stop();
  }

  #onEntry(key: string, value: Uint8Array): void {
    if (key === PLACEMENT_KEY) this.#placement = readStored(value, isPlacement) ?? this.#placement;
    if (key !== REPORT_KEY) return;
    const report = readStored(value, isPlanReport);
    if (report !== undefined) this.#onReport((this.#report = report));
  }
}
