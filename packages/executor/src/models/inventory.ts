import { type ExecutorInventory, MEMORY_UNBOUNDED } from "@tutti/protocol";
import type { ActorKey, GpuId } from "@tutti/units";
import type { GpuSlot } from "../batches/gpu-slot.ts";
import type { ModelLoader } from "./model-loader.ts";

/** Inventory of an executor: the models that it has loaded, and its memory. */
export function inventoryOf(executor: {
  readonly key: ActorKey;
  readonly slots: ReadonlyMap<GpuId, GpuSlot>;
  readonly subCluster: string;
  readonly memoryBytesMax: number | undefined;
  readonly loader: Pick<ModelLoader, "loaded" | "memoryOf" | "dynamicOf">;
}): ExecutorInventory {
  const { key, slots, subCluster, memoryBytesMax = MEMORY_UNBOUNDED, loader } = executor;
  const [first] = slots.values();
  const models = loader.loaded().map(({ spec: { name, number, version } }) => {
    const dynamicBytes = loader.dynamicOf(name);
    return {
      ...{ number, version, memoryBytes: loader.memoryOf(name) ?? 0 },
      ...(dynamicBytes !== undefined && { dynamicBytes }),
    };
  });
  const memoryBytes = models.reduce((sum, model) => sum + model.memoryBytes, 0);
  return {
    ...{ executor: key, gpus: [...slots.keys()], type: first?.engine.type ?? "none", subCluster },
    ...{ memoryBytes, memoryBytesMax, models },
  };
}
