import { beforeEach, expect, test } from "vitest";
import { VirtualClock } from "@tutti/ports/clock";
import type { Engine } from "@tutti/ports/engine";
import type { ModelSpec, ProfileMeasured } from "@tutti/protocol";
import { type GpuId, type Micros, after, actorKey, micros, millis, seconds, threadId } from "@tutti/units";
import { GpuSlot } from "../batches/gpu-slot.ts";
import { Prober } from "./prober.ts";

const spec: ModelSpec = {
  name: "vad",
  number: 1,
  version: "1",
  engine: "onnx",
  slo: seconds(1),
  batchSizeMax: 4,
  patience: 1,
  inputs: [{ name: "frame", type: "UINT8", dims: ["batch", 3] }],
  outputs: [{ name: "frame", type: "UINT8", dims: ["batch", 3] }],
  constants: [],
  axes: {},
  buckets: [{}],
};
const BUDGET = millis(200);

let clock: VirtualClock;
beforeEach(() => {
  clock = new VirtualClock();
});

/**
 * Every run takes `runMs`, or for each of its rows.
 *
 * @returns the measured runs, and how long the probe took, in milliseconds
 */
function measure(
  runMs: number,
  {
    isServing,
    latencyOf,
    runSizes,
    isPerRow = false,
    batchSizes = [1, 2],
    slo = seconds(1),
  }: {
    isServing: boolean;
    isPerRow?: boolean;
    batchSizes?: number[];
    slo?: Micros;
  } & Pick<Engine, "latencyOf" | "runSizes">,
): { tookMs: number; sizes: number[]; runs: number[]; latenciesMs: number[] } {
  const engine: Pick<Engine, "type" | "run" | "latencyOf" | "runSizes"> = {
    ...(runSizes !== undefined && { runSizes }),
    type: "test",
    ...(latencyOf !== undefined && { latencyOf }),
    run: ({ batchSize }, done) => {
      const run = millis(isPerRow ? runMs * batchSize : runMs);
      clock.alarm(() => done({ kind: "ran", run, outputs: [], failedRows: [] })).set(after(clock.now(), run));
    },
  };
  const slot = new GpuSlot(0 as GpuId, engine as Engine);
  let measured: Omit<ProfileMeasured, "executor"> | undefined;
  const start = clock.now();
  let end = start;
  const prober = new Prober({
    clock,
    specOf: () => ({ ...spec, slo, batchSizeMax: Math.max(...batchSizes, spec.batchSizeMax) }),
    samplesOf: () => [],
    onOccupied: () => undefined,
    done: (result) => {
      measured = result;
      end = clock.now();
    },
  });
  if (isServing) {
    const run = { startAt: clock.now(), expectedRun: micros(1), thread: threadId(1, 0) };
    slot.accept(run, clock.now());
    slot.finish(run, micros(1), clock.now());
  }
  prober.want(
    {
      profiler: actorKey(1),
      gpu: 0 as GpuId,
      model: "vad",
      number: 1,
      bucket: 0,
      batchSizes,
      runs: 20,
      budget: BUDGET,
    },
    slot,
  );
  clock.advanceTo(after(start, seconds(1_000)));
  const samples = measured?.samples ?? [];
  return {
    tookMs: (end - start) / 1_000,
    sizes: samples.map((sample) => sample.batchSize),
    runs: samples.map((sample) => sample.runs.length),
    latenciesMs: samples.map((sample) => Math.min(...sample.runs) / 1_000),
  };
}

test("an accelerator that serves nobody is measured without a pause", () => {
  expect(measure(10, { isServing: false })).toMatchObject({ tookMs: 2 * 21 * 10, sizes: [1, 2], runs: [20, 20] });
});

test("one that serves is left free after each measured run for as long as it took", () => {
  expect(measure(10, { isServing: true })).toMatchObject({
    tookMs: 2 * (21 * 10 + 20 * 10),
    sizes: [1, 2],
    runs: [20, 20],
  });
});

test("a size whose runs are long is measured until the budget is spent, at least five times, and three where one run spends it", () => {
  expect(measure(30, { isServing: false }).runs).toEqual([7, 7]);
  expect(measure(100, { isServing: false }).runs).toEqual([5, 5]);
  expect(measure(200, { isServing: false }).runs).toEqual([3, 3]);
});

test("where batches are filled up, the sizes that run are measured, and each holds from the size after the one before", () => {
  const runSizes = (): number[] => [1, 4];
  expect(measure(10, { isServing: false, runSizes })).toMatchObject({
    tookMs: 2 * 21 * 10,
    sizes: [1, 2, 4],
    runs: [20, 20, 20],
  });
});

test("an engine that knows its latencies tells them without a run, and one that knows only some is measured", () => {
  const latencyOf = (_: string, __: number, batchSize: number) => micros(100 * batchSize);
  expect(measure(10, { isServing: false, latencyOf })).toMatchObject({ tookMs: 0, sizes: [1, 2], runs: [1, 1] });
  const some: typeof latencyOf = (model, bucket, batchSize) =>
    (batchSize === 1 ? latencyOf(model, bucket, batchSize) : undefined) as ReturnType<typeof latencyOf>;
  expect(measure(10, { isServing: false, latencyOf: some }).runs).toEqual([20, 20]);
});

test("measuring ends with the first size that takes longer than the SLO; larger ones count as long for each row", () => {
  const sizes = [1, 2, 4, 8, 16];
  const slow = { isServing: false, isPerRow: true, batchSizes: sizes };
  expect(measure(400, slow)).toMatchObject({
    tookMs: 4 * (400 + 800 + 1_600),
    sizes,
    runs: [3, 3, 3, 1, 1],
    latenciesMs: [400, 800, 1_600, 3_200, 6_400],
  });
  // One row alone takes longer: the model will be refused, and no batch is tried.
  expect(measure(1_500, slow).tookMs).toBe(4 * 1_500);
  expect(measure(1_500, { ...slow, runSizes: () => [1, 8, 16] }).sizes).toEqual([1, 2, 8, 9, 16]);
});

test("runs of many seconds that an SLO allows are made once, and are their own warm-up after the first size", () => {
  const slow = { isServing: false, isPerRow: true, batchSizes: [1, 2, 4, 8, 16, 32], slo: seconds(60) };
  expect(measure(12_000, slow)).toMatchObject({
    tookMs: (2 + 2 + 4 + 8) * 12_000,
    runs: [1, 1, 1, 1, 1, 1],
    latenciesMs: [1, 2, 4, 8, 16, 32].map((size) => 12_000 * size),
  });
});
