import { ExecutorInventory, ModelReported } from "@tutti/protocol";
import type { ActorKey, GpuId } from "@tutti/units";
import type { ActorRuntime, Catalog } from "@tutti/actors/runtime";
import type { GpuSlot } from "../batches/gpu-slot.ts";
import { inventoryOf } from "../models/inventory.ts";
import type { ModelLoader, ModelReport } from "../models/model-loader.ts";
import type { RankerLink } from "../batches/ranker-link.ts";

export interface ExecutorReportsOptions {
  readonly self: ActorKey;
  readonly runtime: ActorRuntime;
  readonly catalog: () => Catalog;
  readonly loader: ModelLoader;
  readonly slots: ReadonlyMap<GpuId, GpuSlot>;
  readonly rankerLink: RankerLink;
  readonly memoryBytesMax: number | undefined;
  readonly engineType: string;
}

/** Reports of the executor on its models. Silent before `open`: an incomplete inventory would move models. */
export class ExecutorReports {
  readonly #options: ExecutorReportsOptions;
  #state: "before" | "open" | "closed" = "before";

  constructor(options: ExecutorReportsOptions) {
    this.#options = options;
  }

  open(): void {
    if (this.#state === "before") this.#state = "open";
  }
  close(): void {
    this.#state = "closed";
  }

  /** Reports the inventory to planners, which place models, and to profilers, which wait for them. */
  inventory(): void {
    if (this.#state !== "open") return;
    const { self: key, runtime, slots, loader, memoryBytesMax, rankerLink } = this.#options;
    const inventory = inventoryOf({ key, slots, subCluster: rankerLink.subCluster, memoryBytesMax, loader });
    runtime.broadcast("planner", ExecutorInventory, inventory, "upkeep");
    runtime.broadcast("profiler", ExecutorInventory, inventory, "upkeep");
  }

  model(report: ModelReport): void {
    const { self: executor, runtime, slots, engineType: type } = this.#options;
    runtime.broadcast("profiler", ModelReported, { ...report, executor, gpus: [...slots.keys()], type });
  }

  /** Repeats reports until a profiler has decided on the model: it may have started after us, or missed a report. */
  unready(): void {
    const { catalog, loader } = this.#options;
    for (const report of loader.reports()) {
      const state = catalog().get(report.model)?.status?.state;
      const isDecided = state === "refused" || state === "failed" || state === "quarantined";
      if (!isDecided && (state !== "ready" || report.state === "failed")) this.model(report);
    }
  }
}
