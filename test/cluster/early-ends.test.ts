/** Leads of grants where accelerators become free earlier than planned (docs/algorithms.md, A4), in virtual time. */
import { BatchDispatched, BatchRefused, GpuFreed, GpuJoined } from "@tutti/protocol";
import { micros, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

/** Delays that batchers plan with, µs. */
const CTRL = 400;

/** One accelerator, and what is heard of it. */
function listening(options: VirtualClusterOptions = {}) {
  const heard = { runs: new Map<string, number>(), leads: [] as number[], refused: 0, freed: 0, joined: 0 };
  const cluster = new VirtualCluster({
    ...{ gpus: 1, policy: { kind: "adaptive" }, aloneShare: 0, ...options },
    fault: (_, __, { model }) => void heard.runs.set(model, (heard.runs.get(model) ?? 0) + 1),
  });
  const reader = new FrameReader()
    .on(BatchDispatched, ({ grantedAt, startAt }) => heard.leads.push(startAt - grantedAt))
    .on(BatchRefused, () => heard.refused++)
    .on(GpuFreed, () => heard.freed++)
    .on(GpuJoined, () => heard.joined++);
  cluster.network.connect({ name: "tap" }).subscribe(">", ({ payload }) => void reader.read(payload));
  return { cluster, heard };
}

test("ends of measurements are no early ends: where batches take as planned, no grant leaves earlier after them (EARLY-2)", () => {
  const { cluster, heard } = listening();
  const steady = { name: "steady", alphaMs: 0.2, betaMs: 3, sloMs: 25 };
  cluster.addModel(steady);
  cluster.run(seconds(1));
  cluster.load("steady", { rate: 4_000, duration: seconds(1), sloMs: 25 });
  cluster.addModel({ ...steady, name: "measured", isUnmeasured: true });
  cluster.run(seconds(4));
  expect(heard.runs.get("measured")).toBeGreaterThan(70);
  heard.leads.length = 0;
  cluster.load("steady", { rate: 4_000, duration: millis(100), sloMs: 25 });
  expect(Math.max(...heard.leads)).toBeLessThan(2 * CTRL);
});

test("a refused batch is no early end: the executor says by another message when the accelerator is free (EARLY-2)", () => {
  const { cluster, heard } = listening({ dataHop: micros(1_500) });
  cluster.addModel({ name: "short", alphaMs: 0.1, betaMs: 0.8, sloMs: 25, batchSizeMax: 4 });
  cluster.run(seconds(1));
  cluster.stallData("ingress", millis(15)); // accepted batches have no inputs, and none ends
  cluster.run(millis(1));
  const before = { ...heard };
  cluster.load("short", { rate: 4_500, duration: millis(14), sloMs: 25 });
  expect(heard.refused).toBeGreaterThan(before.refused);
  expect([heard.freed, heard.joined > before.joined]).toEqual([before.freed, true]);
});
