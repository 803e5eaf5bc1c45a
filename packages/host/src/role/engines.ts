import type { Clock } from "@tutti/ports/clock";
import {
  EmulatedEngine,
  type EmulatedEngineOptions,
  type Engine,
  type EngineModel,
  type LoadOutcome,
} from "@tutti/ports/engine";
import { LatencyTable } from "@tutti/profile";
import { executorType } from "@tutti/protocol";
import type { Micros } from "@tutti/units";
import { nvidiaGpuName } from "../parts/nvidia-gpus.ts";
import { latencyOnPart } from "../parts/part-latency.ts";
import type { RoleOptions } from "./role-options.ts";

/** The name of an executor's accelerator in its type: what it is told, or that of an NVIDIA GPU; undefined: none. */
export async function acceleratorName({
  acceleratorType,
  provider,
  device,
}: Pick<RoleOptions, "acceleratorType" | "provider" | "device">): Promise<string | undefined> {
  return acceleratorType ?? (provider === "cuda" ? nvidiaGpuName(device) : undefined);
}

export interface EmulationOptions {
  readonly jitter: EmulatedEngineOptions["jitter"];
  /** In percent of an accelerator. */
  readonly part: number;
  /** Name of such accelerators, in the executor type. */
  readonly acceleratorType?: string | undefined;
}

/**
 * An emulated accelerator with the latencies of its models. The latencies are in the models' specs, so every host knows
 * them.
 */
export function createEmulatedEngine(clock: Clock, { jitter, part, acceleratorType }: EmulationOptions): Engine {
  const tables = new Map<string, readonly LatencyTable[]>();
  const latencyOf = (model: string, bucket: number, batchSize: number): Micros | undefined => {
    const table = tables.get(model)?.[bucket];
    return table && latencyOnPart(table, batchSize, part);
  };
  const engine = new EmulatedEngine({
    clock,
    latency: latencyOf,
    ...(jitter !== undefined && { jitter }),
  });
  return {
    type: executorType(engine.type, { accelerator: acceleratorType, part }),
    latencyOf,
    load(model: EngineModel, done: (outcome: LoadOutcome) => void) {
      const { name, profile = [], batchSizeMax } = model.spec;
      tables.set(
        name,
        profile.map((points) => LatencyTable.fromPoints(points, { batchSizeMax })),
      );
      engine.load(model, done);
    },
    unload: (name, done) => engine.unload(name, done),
    run: (batch, done) => engine.run(batch, done),
    stop: (done) => engine.stop(done),
  };
}
