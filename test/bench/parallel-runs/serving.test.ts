import { expect, test } from "vitest";
import type { EngineBatch, RunOutcome } from "@tutti/ports/engine";
import { LatencyTable } from "@tutti/profile";
import type { ModelSpec } from "@tutti/protocol";
import { micros } from "@tutti/units";
import { type Arrival, type Lane, type Served, serve } from "./serving.ts";

const spec = (name: string): ModelSpec => ({
  ...{ name, number: 1, version: "1", engine: "onnx", slo: micros(1_000_000), batchSizeMax: 2, patience: 1 },
  inputs: [{ name: "x", type: "FP32", dims: ["batch", 1] }],
  outputs: [{ name: "y", type: "FP32", dims: ["batch", 1] }],
  ...{ constants: [], axes: {}, buckets: [{}] },
});
const latency = LatencyTable.fromPoints([
  { batchSize: 1, latency: micros(10_000) },
  { batchSize: 2, latency: micros(12_000) },
]);
const models = ["a", "b"].map((name) => ({ spec: spec(name), latency, sloUs: 25_000 }));

/** Engines whose runs take exactly their isolated time, with a log of the runs. */
function workshop() {
  let [time, atOnce, mostAtOnce] = [0, 0, 0];
  const alarms: { at: number; fire: () => void }[] = [];
  const ran: { model: string; size: number; from: number }[] = [];
  const wakeAt = (at: number, fire: () => void): void => void alarms.push({ at, fire });
  const engine = {
    run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void {
      mostAtOnce = Math.max(mostAtOnce, ++atOnce);
      ran.push({ model: batch.model, size: batch.batchSize, from: time });
      wakeAt(time + latency.latency(batch.batchSize), () => {
        atOnce--;
        done({ kind: "ran", run: latency.latency(batch.batchSize), outputs: [], failedRows: [] });
      });
    },
  };
  const runAll = (lanes: readonly Lane[], arrivals: readonly Arrival[]): Promise<Served> => {
    const served = serve({ models, lanes, arrivals, now: () => time, wakeAt });
    while (alarms.length > 0) {
      alarms.sort((a, b) => a.at - b.at);
      const next = alarms.shift()!;
      time = next.at;
      next.fire();
    }
    return served;
  };
  return { engine, ran, runAll, most: () => mostAtOnce };
}
const dueAt = (...pairs: [number, number][]): Arrival[] => pairs.map(([atUs, model]) => ({ atUs, model }));

test("one lane runs one batch at a time, the earliest deadline's, and drops what can't be in time", async () => {
  const { engine, ran, runAll, most } = workshop();
  const arrivals = dueAt([0, 0], [1, 1], [2, 1], [3, 0]);
  const served = await runAll([{ engine, models: [0, 1] }], arrivals);
  expect(ran).toEqual([
    { model: "a", size: 1, from: 0 },
    { model: "b", size: 2, from: 10_000 },
  ]);
  expect(most()).toBe(1);
  expect({ ...served, latencies: [...served.latencies], stretches: [...served.stretches] }).toEqual({
    ...{ offered: 4, good: 3, batchMean: 1.5 },
    latencies: [10_000, 21_998, 21_999],
    stretches: [1, 1],
  });
});

test("a lane for each model runs them at once", async () => {
  const { engine, ran, runAll, most } = workshop();
  const lanes = [0, 1].map((model) => ({ engine, models: [model] }));
  const served = await runAll(lanes, dueAt([0, 0], [1, 1], [2, 1], [3, 0]));
  expect(ran.map(({ model, from }) => [model, from])).toEqual([
    ["a", 0],
    ["b", 1],
    ["a", 10_000],
    ["b", 10_001],
  ]);
  expect(most()).toBe(2);
  expect(served.good).toBe(4);
});

test("a batch that fails ends the measurement with its reason", async () => {
  const engine = {
    run: (_: EngineBatch, done: (outcome: RunOutcome) => void) =>
      done({ kind: "failed", reason: "broken", fault: false }),
  };
  const { runAll } = workshop();
  await expect(runAll([{ engine, models: [0, 1] }], dueAt([0, 0]))).rejects.toThrow("broken");
});
