/** Failed models, and what lets them be tried again (docs/design/executors.md). */
import type { Engine } from "@tutti/ports/engine";
import { BUCKET, type ModelStatus } from "@tutti/protocol";
import { type GpuId, after, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

test("a failed model is served by those that have it once the executor that could not load it is gone", () => {
  const wrapEngine = (engine: Engine, gpu: GpuId): Engine => ({
    type: engine.type,
    load: (model, done) => {
      if (gpu !== 0) return engine.load(model, done);
      // The other executor has reported that it has the model by then.
      const fails = (): void => done({ kind: "failed", reason: "out of device memory" });
      cluster.clock.alarm(fails).set(after(cluster.clock.now(), seconds(1)));
    },
    unload: (name, done) => engine.unload(name, done),
    run: (batch, done) => engine.run(batch, done),
    stop: (done) => engine.stop(done),
  });
  const cluster: VirtualCluster = new VirtualCluster({ gpus: 2, executors: 2, wrapEngine });
  const stateOf = (): string | undefined => {
    let found: ModelStatus | undefined;
    cluster.store.get(BUCKET.profiles, "m", (result) => {
      if (result !== "absent" && !("failure" in result)) found = fromJson(result.value) as ModelStatus;
    });
    cluster.run(millis(1));
    return found?.state;
  };
  cluster.addModel({ name: "m", alphaMs: 10, betaMs: 90, sloMs: 500, isUnmeasured: true });
  cluster.run(seconds(10));
  const before = stateOf();
  cluster.kill("executor-0");
  cluster.run(seconds(10));
  expect([before, stateOf()]).toEqual(["failed", "ready"]);
});
