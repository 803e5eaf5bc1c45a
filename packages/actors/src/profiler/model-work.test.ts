import type { ModelSpec } from "@tutti/protocol";
import { type ActorKey, actorKey, gpuId } from "@tutti/units";
import { expect, test } from "vitest";
import { ModelWork } from "./model-work.ts";

const spec = { name: "m", number: 1, version: "1", buckets: [{}], batchSizeMax: 4 } as unknown as ModelSpec;

/** Accelerators that measure, each with its executor's type, once the trial is over. */
function measured(gpusMax: number, executors: readonly { readonly type: string; readonly gpus: number }[]): string[] {
  const work = new ModelWork(spec);
  const types = new Map<ActorKey, string>();
  for (const [i, { type, gpus }] of executors.entries()) {
    const executor = actorKey(i + 1);
    types.set(executor, type);
    work.reports.set(executor, { type, gpus: Array.from({ length: gpus }, (_, j) => gpuId(10 * i + j)), failure: "" });
  }
  work.planMeasurements(gpusMax, [...types.keys()]);
  expect(work.measurements).toHaveLength(1);
  work.endTrial();
  work.planMeasurements(gpusMax, [...types.keys()]);
  return work.measurements.map(({ executor, gpu }) => `${types.get(executor)} ${gpu}`);
}

test("every type of executor is measured, also one that reports after as many accelerators as measure at once", () => {
  const pool = [
    { type: "fast", gpus: 4 },
    { type: "fast", gpus: 2 },
    { type: "slow", gpus: 2 },
  ];
  expect(measured(4, pool)).toEqual(["fast 0", "slow 20", "fast 1", "slow 21"]);
  const many = ["a", "b", "c"].map((type) => ({ type, gpus: 2 }));
  expect(measured(2, many)).toEqual(["a 0", "b 10", "c 20"]);
});

test("of one type as many measure as may at once", () => {
  expect(measured(2, [{ type: "fast", gpus: 3 }])).toEqual(["fast 0", "fast 1"]);
});

test("a type whose executor reports while the others measure is measured before the model is ready, and only once", () => {
  const work = new ModelWork(spec);
  const [fast, slow] = [actorKey(1), actorKey(2)];
  work.reports.set(fast, { type: "fast", gpus: [gpuId(0)], failure: "" });
  work.planMeasurements(4, [fast]);
  const note = (executor: ActorKey, gpu: number, type: string): void =>
    work.note({
      ...{ executor, gpu: gpuId(gpu), model: "m", number: 1, bucket: 0, type, failure: "" },
      samples: [1, 2, 4].map((batchSize) => ({ batchSize, runs: [1_000 * batchSize] })),
    });
  note(fast, 0, "fast");
  expect(work.planLateTypes([fast])).toBe(false);
  work.reports.set(slow, { type: "slow", gpus: [gpuId(8), gpuId(9)], failure: "" });
  expect(work.planLateTypes([fast])).toBe(false);
  expect(work.planLateTypes([fast, slow])).toBe(true);
  expect(work.missing.map(({ executor, gpu }) => [executor, gpu])).toEqual([[slow, 8]]);
  note(slow, 8, "slow");
  expect([work.missing.length, work.planLateTypes([fast, slow])]).toEqual([0, false]);
});
