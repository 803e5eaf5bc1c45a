/**
 * An executor that takes another's place on one accelerator, as in `tutti split`. It is held until the other one has
 * ended, in virtual time.
 */
import type { ExecutorPorts } from "@tutti/executor";
import type { Engine } from "@tutti/ports/engine";
import { gpuId, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

const MODEL = { name: "m", alphaMs: 1, betaMs: 4, sloMs: 500, batchSizeMax: 8 } as const;

test("one that is held loads and is ready, but runs nothing until it is let go; then nothing is lost in between", () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    /** Batches by accelerator: those that ran, those under way, and the most accelerators with some at once. */
    const ran = new Map<number, number>();
    const under = new Map<number, number>();
    let most = 0;
    const wrapEngine = (engine: Engine, gpu: number): Engine => ({
      type: engine.type,
      load: (model, done) => engine.load(model, done),
      unload: (name, done) => engine.unload(name, done),
      stop: (done) => engine.stop(done),
      run(batch, done) {
        ran.set(gpu, (ran.get(gpu) ?? 0) + 1);
        under.set(gpu, (under.get(gpu) ?? 0) + 1);
        most = Math.max(most, [...under.values()].filter((count) => count > 0).length);
        engine.run(batch, (outcome) => {
          under.set(gpu, under.get(gpu)! - 1);
          done(outcome);
        });
      },
    });
    const cluster = new VirtualCluster({ seed, gpus: 1, executors: 1, batchers: 1, wrapEngine });
    cluster.addModel(MODEL);
    cluster.run(seconds(3));
    const asked = cluster.load("m", { rate: 100, duration: seconds(1), sloMs: 500 });

    let release: (() => void) | undefined;
    const held: ExecutorPorts["held"] = (let_) => (release = let_);
    for (const gpu of [1, 2]) cluster.startExecutor(`part-${gpu}`, [gpuId(gpu)], [], { held });
    ran.clear();
    asked.push(...cluster.load("m", { rate: 100, duration: seconds(2), sloMs: 500 }));
    expect(release).toBeDefined();
    expect([ran.has(1), ran.has(2)]).toEqual([false, false]);
    expect(ran.get(0)).toBeGreaterThan(0);
    cluster.drain("executor-0");
    cluster.run(millis(300));
    expect([ran.has(1), ran.has(2)]).toEqual([false, false]);
    expect(most).toBe(1);
    release?.();
    ran.clear();
    asked.push(...cluster.load("m", { rate: 100, duration: seconds(1), sloMs: 500 }));
    cluster.run(seconds(2));
    // Only the last held executor was released.
    expect([ran.has(0), ran.has(1), ran.has(2)]).toEqual([false, false, true]);
    expect(asked.filter(({ outcomes }) => outcomes.length !== 1)).toEqual([]);
    expect(asked.length).toBeGreaterThan(300);
  }
});
