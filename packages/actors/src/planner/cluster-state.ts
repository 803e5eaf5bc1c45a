import {
  DEFAULT_SUB_CLUSTER,
  type ExecutorInventory,
  type Heartbeat,
  MEMORY_UNBOUNDED,
  type Placement,
} from "@tutti/protocol";
import type { ExecutorToPlace } from "@tutti/planning/live";
import { type ActorKey, type GpuId, type Instant, type Micros, seconds } from "@tutti/units";
import type { PeerRegistry } from "../runtime/peer-registry.ts";

/**
 * How long a sub-cluster may be without a leader before it is given up. A spare takes over meanwhile, or its supervisor
 * starts it again.
 */
const LEADERLESS = seconds(3);
/** Bound of the remembered sizes of models that were loaded once (T7). */
const SIZES_KEPT = 16_384;
/** The same for lost executors. */
const LOST_KEPT = 1_024;

/** Bytes of a model's weights, and those that its runs take besides. */
interface ModelSize {
  readonly memoryBytes: number;
  readonly dynamicBytes: number;
}

/** The cluster that plans are made for: sub-clusters with a leader, and executors with the models that they hold. */
export class ClusterState {
  readonly #inventories = new Map<ActorKey, ExecutorInventory>();
  /** The last inventories of lost executors: one that was only silent has what it had. */
  readonly #lost = new Map<ActorKey, ExecutorInventory>();
  readonly #ledAt = new Map<string, Instant>();
  /** Accelerators whose executor is gone, and since when. */
  readonly #goneAt = new Map<GpuId, Instant>();
  readonly #leaders = new Map<string, ActorKey>();
  readonly #sizes = new Map<number, ModelSize>();
  readonly #startedAt: Instant;

  constructor(startedAt: Instant) {
    this.#startedAt = startedAt;
  }

  /** @returns whether the sub-cluster had no known leader before */
  hearRanker({ key, epoch = 0, subCluster = DEFAULT_SUB_CLUSTER }: Heartbeat, now: Instant): boolean {
    if (epoch === 0) return false;
    this.#leaders.set(subCluster, key);
    const isNew = !this.#ledAt.has(subCluster);
    this.#ledAt.set(subCluster, now);
    return isNew;
  }

  /** @returns whether the executor is new, or its inventory has changed */
  hearInventory(inventory: ExecutorInventory): boolean {
    const before = this.#inventories.get(inventory.executor);
    this.#lost.delete(inventory.executor);
    this.#inventories.set(inventory.executor, inventory);
    for (const gpu of inventory.gpus) this.#goneAt.delete(gpu);
    for (const { number, memoryBytes, dynamicBytes } of inventory.models) {
      // Executors measure for themselves, and a small one that fits is no use where the largest doesn't.
      const dynamic = Math.max(dynamicBytes ?? 0, this.#sizes.get(number)?.dynamicBytes ?? 0);
      this.#sizes.delete(number); // The newest come last.
      this.#sizes.set(number, { memoryBytes, dynamicBytes: dynamic });
    }
    for (const oldest of this.#sizes.keys()) {
      if (this.#sizes.size <= SIZES_KEPT) break;
      this.#sizes.delete(oldest);
    }
    return before === undefined || textOf(before) !== textOf(inventory);
  }

  lose(executor: ActorKey, now: Instant): void {
    const inventory = this.#inventories.get(executor);
    if (inventory === undefined) return;
    for (const gpu of inventory.gpus) this.#goneAt.set(gpu, now);
    this.#inventories.delete(executor);
    this.#lost.set(executor, inventory);
    const [oldest] = this.#lost.keys();
    if (this.#lost.size > LOST_KEPT && oldest !== undefined) this.#lost.delete(oldest);
  }

  /**
   * A lost executor is heard again: it, or this planner, was cut off. Its next inventory may come a second later, and
   * until then its models must not be taken for homeless.
   *
   * @returns whether its accelerators count again
   */
  rejoin(executor: ActorKey): boolean {
    const inventory = this.#lost.get(executor);
    this.#lost.delete(executor);
    if (inventory === undefined) return false;
    const present = new Set([...this.#inventories.values()].flatMap(({ gpus }) => gpus));
    if (inventory.gpus.some((gpu) => present.has(gpu))) return false; // it has a successor
    this.#inventories.set(executor, inventory);
    for (const gpu of inventory.gpus) this.#goneAt.delete(gpu);
    return true;
  }

  /** @returns whether sub-clusters were given up */
  forget(now: Instant): boolean {
    let isNews = false;
    for (const [subCluster, ledAt] of this.#ledAt)
      if (now - ledAt > LEADERLESS) {
        this.#leaders.delete(subCluster);
        isNews = this.#ledAt.delete(subCluster) || isNews;
      }
    return isNews;
  }

  leaderOf(subCluster: string): ActorKey | undefined {
    return this.#leaders.get(subCluster);
  }

  /** The default sub-cluster first, then by name. */
  subClusters(): string[] {
    const rank = (name: string): number => (name === DEFAULT_SUB_CLUSTER ? 0 : 1);
    return [...this.#ledAt.keys()].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  }

  /**
   * Inventories of the living executors. Of two with the same accelerator the one that came last counts: the other was
   * killed a moment ago, and is not missed yet.
   */
  inventories(registry: PeerRegistry): ExecutorInventory[] {
    const taken = new Set<GpuId>();
    return [...this.#inventories.values()]
      .filter(({ executor }) => registry.get(executor) !== undefined)
      .reverse()
      .filter(({ gpus }) => {
        const isFree = !gpus.some((gpu) => taken.has(gpu));
        if (isFree) for (const gpu of gpus) taken.add(gpu);
        return isFree;
      })
      .sort((a, b) => a.executor - b.executor);
  }
  executors(registry: PeerRegistry): ExecutorToPlace[] {
    return this.inventories(registry).map(({ executor, gpus, memoryBytesMax, subCluster, models }) => ({
      key: executor,
      gpus,
      memoryBytesMax: memoryBytesMax >= MEMORY_UNBOUNDED ? Infinity : memoryBytesMax,
      subCluster,
      loaded: new Set(models.map(({ number }) => number)),
    }));
  }

  /** Memory of a model, if an executor has reported it. */
  sizeOf(modelNumber: number): ModelSize | undefined {
    return this.#sizes.get(modelNumber);
  }

  /** Accelerators that were placed and whose executor may be back soon. */
  awaited(placement: Placement | undefined, now: Instant, patience: Micros): Set<GpuId> {
    const present = new Set([...this.#inventories.values()].flatMap(({ gpus }) => gpus));
    for (const [gpu, goneAt] of this.#goneAt)
      if (now - goneAt > patience && placement?.gpus.some((placed) => placed.gpu === gpu) !== true)
        this.#goneAt.delete(gpu);
    return new Set(
      (placement?.gpus ?? [])
        .map(({ gpu }) => gpu)
        .filter((gpu) => !present.has(gpu) && now - (this.#goneAt.get(gpu) ?? this.#startedAt) <= patience),
    );
  }
}

const textOf = ({ gpus, subCluster, memoryBytesMax, models }: ExecutorInventory): string =>
  [
    ...[gpus.join(), subCluster, memoryBytesMax],
    models.map(({ number, version, dynamicBytes = 0 }) => `${number}:${version}:${dynamicBytes}`).join(),
  ].join(" ");
