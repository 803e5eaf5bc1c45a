import type { ActorKey } from "@tutti/units";
import type { PeerRegistry } from "../runtime/peer-registry.ts";
import type { PlacementWatcher } from "../runtime/placement-watcher.ts";

/** Which executors have a model to serve, by the placement. */
export class ModelExecutors {
  readonly #registry: PeerRegistry;
  readonly #placement: PlacementWatcher;

  constructor(registry: PeerRegistry, placement: PlacementWatcher) {
    this.#registry = registry;
    this.#placement = placement;
  }

  /** The living executors of the model's sub-cluster, all of which must load it before it is ready. */
  of(modelNumber: number): ActorKey[] {
    return [...this.#registry.ofRole("executor")]
      .map(({ key }) => key)
      .filter((executor) => this.includes(modelNumber, executor));
  }

  /** Whether an executor counts for a model. One that has not been heard yet counts while there is no placement. */
  includes(modelNumber: number, executor: ActorKey): boolean {
    const subCluster = this.homeOf(modelNumber);
    const gpus = this.#registry.get(executor)?.gpus;
    if (gpus === undefined) return this.#placement.placement === undefined;
    // An executor that is about to join the sub-cluster comes with all ready models loaded.
    const isHere = subCluster !== undefined && gpus.some((gpu) => gpu.subCluster === subCluster);
    return isHere && this.#placement.subClusterOfExecutor(gpus.map(({ gpu }) => gpu)) !== undefined;
  }

  /** Sub-cluster whose executors have the model, or load it after it was parked; undefined: none. */
  homeOf(modelNumber: number): string | undefined {
    return this.#placement.subClusterOf(modelNumber) ?? this.#placement.nextOf(modelNumber);
  }

  /** The sub-cluster that a placement gives it: before the first one all models are to share whatever there is. */
  placeOf(modelNumber: number): string | undefined {
    return this.#placement.placement === undefined ? undefined : this.homeOf(modelNumber);
  }
}
