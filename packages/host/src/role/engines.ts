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
import { latencyOnPart } from "../parts/part-latency.ts";

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
