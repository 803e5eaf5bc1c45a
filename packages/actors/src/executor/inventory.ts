import { type ExecutorInventory, MEMORY_UNBOUNDED } from "@tutti/protocol";
import type { ActorKey, GpuId } from "@tutti/units";
import type { GpuDesk } from "./gpu-desk.ts";
import type { ModelKeeper } from "./model-keeper.ts";

/** What an executor has loaded, and what it may. */
export function inventoryOf(executor: {
  readonly key: ActorKey;
  readonly desks: ReadonlyMap<GpuId, GpuDesk>;
  readonly subCluster: string;
  readonly memoryBytesMax: number | undefined;
  readonly keeper: Pick<ModelKeeper, "loaded" | "memoryOf">;
}): ExecutorInventory {
  const { key, desks, subCluster, memoryBytesMax = MEMORY_UNBOUNDED, keeper } = executor;
  const [first] = desks.values();
  const models = keeper.loaded().map(({ spec: { name, number, version } }) => {
    return { number, version, memoryBytes: keeper.memoryOf(name) ?? 0 };
  });
  const memoryBytes = models.reduce((sum, model) => sum + model.memoryBytes, 0);
  return {
    ...{ executor: key, gpus: [...desks.keys()], type: first?.engine.type ?? "none", subCluster },
    ...{ memoryBytes, memoryBytesMax, models },
  };
}
