/** The figures that actors report of their models are those that the gateway sums for /metrics. */
import { SUMMED_FIGURES } from "@tutti/gateway";
import { StatsReported, subjectsOf } from "@tutti/protocol";
import { seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

test.each(["ingress", "batcher", "executor"] as const)("an %s reports every figure that the gateway sums", (role) => {
  const cluster = new VirtualCluster({ gpus: 1 });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 4, sloMs: 100 });
  let figures: Readonly<Record<string, number>> = {};
  const reader = new FrameReader().on(StatsReported, ({ perThread = [] }) => {
    for (const thread of perThread) if (thread.name === "m") figures = thread.figures;
  });
  const listener = cluster.network.connect({ name: "listener" });
  listener.subscribe(subjectsOf("main").stats(role), ({ payload }) => void reader.read(payload));
  cluster.run(seconds(2));
  cluster.load("m", { rate: 100, duration: seconds(1), sloMs: 100 });
  cluster.run(seconds(2));
  for (const name of SUMMED_FIGURES[role]) expect(figures, name).toHaveProperty([name]);
  expect(Object.values(figures).some((value) => value > 0)).toBe(true);
});

test("batches of warm-up requests alone are not counted, and those that were asked for are", () => {
  const cluster = new VirtualCluster({ gpus: 1 });
  cluster.addModel({ name: "m", alphaMs: 1, betaMs: 4, sloMs: 100 });
  const totals: Record<string, number> = {};
  const reader = new FrameReader().on(StatsReported, ({ perThread = [] }) => {
    for (const { name, figures } of perThread) if (name === "m") Object.assign(totals, figures);
  });
  const listener = cluster.network.connect({ name: "listener" });
  for (const role of ["ingress", "batcher", "executor"] as const)
    listener.subscribe(subjectsOf("main").stats(role), ({ payload }) => void reader.read(payload));
  cluster.run(seconds(3));
  expect(totals["computed"]).toBeGreaterThan(0);
  expect(totals).toMatchObject({ batches: 0, items: 0 });
  cluster.load("m", { rate: 100, duration: seconds(1), sloMs: 100 });
  cluster.run(seconds(3));
  expect(totals["ok"]).toBeGreaterThan(0);
  expect(totals["items"]).toBe(totals["ok"]);
  expect(totals["batches"]).toBeLessThanOrEqual(totals["items"]!);
});
