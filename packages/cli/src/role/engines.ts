import type { Clock } from "@tutti/clock";
import {
  EmulatedEngine,
  type EmulatedEngineOptions,
  type Engine,
  type EngineModel,
  type LoadOutcome,
} from "@tutti/engine";
import { LatencyTable } from "@tutti/profile";

/** An emulated accelerator whose latencies are those of the models that it is given: they travel in the models' specs, so every host knows them. */
export function createEmulatedEngine(clock: Clock, jitter: EmulatedEngineOptions["jitter"]): Engine {
  const tables = new Map<string, readonly LatencyTable[]>();
  const engine = new EmulatedEngine({
    clock,
    latency: (model, bucket, batchSize) => tables.get(model)?.[bucket]?.latency(batchSize),
    ...(jitter !== undefined && { jitter }),
  });
  return {
    type: engine.type,
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
